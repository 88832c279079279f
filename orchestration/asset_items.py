"""What the `items_…` of each asset's materialisations count; the UI shows it with the asset, as `item`.

What belongs here: one line an asset, for whoever is on call. What does not: how it is counted (the pipelines'
`partition_metadata.py` and reports).
"""

from collections.abc import Mapping

_AI_JOB = (
    "an article's {} job. Suspended: economy_news_resume_suspended, once key and bill are right. "
    "Failed: economy_news_requeue_failed. Outdated: of an older prompt, model or text; `redo` makes it again"
)
_RECORD = "a job record fetched on this day. Done: this stage is behind it. Failed: recipes_requeue_failed"
_CONTEXT = (
    "a context requested on this day. Failed: for good, in either stage; who asks again is the application"
)
_MEMBER = "a member queued on this day. Failed: recommendations_requeue_failed"
_FILE = "a file of this day and source. Failed: unreadable; each pass tries it again"

ITEMS: Mapping[str, str] = {
    "economy_articles": "an article of this day and section. Waiting: listed and not fetched yet, by itself. "
    "Failed: its page could not be read",
    "article_summaries": _AI_JOB.format("SUMMARY"),
    "article_term_cards": _AI_JOB.format("TERM_CARDS"),
    "article_insights": _AI_JOB.format("INSIGHT"),
    "article_content_quizzes": _AI_JOB.format("QUIZ_CONTENT"),
    "article_term_quizzes": _AI_JOB.format("QUIZ_TERM"),
    "article_completeness": "an article that should have all five results. `unsettled` says what it lacks",
    "raw_file_manifest": _FILE,
    "raw_domains": _FILE,
    "domain_metadata": "a front page of a domain that is new in this partition. Failed: the site's fault; "
    "domain_metadata_refresh tries it again",
    "recipe_jobs": _RECORD,
    "recipe_parse_batches": _RECORD,
    "recipe_parse_results": _RECORD,
    "recipes": _RECORD,
    "recipe_embedding_batches": _RECORD,
    "recipe_embeddings": _RECORD,
    "keyword_presets": "a keyword of the preset file that is active",
    "context_embeddings": _CONTEXT,
    "context_keywords": _CONTEXT,
    "product_embeddings": "an active product whose text has no vector yet",
    "recommendation_queue": _MEMBER,
    "recommended_products": _MEMBER,
}
