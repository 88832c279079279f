"""`python -m orchestration.recipe_search '두부로 만드는 아침'`: the published recipes nearest to a text."""

import argparse
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

from orchestration.settings import SettingsError, settings_from_environment
from resources.embeddings import EmbeddingResource
from resources.errors import ServiceError
from resources.postgres import PostgresResource


def main() -> int:
    """Prints one recipe a line with its similarity; 1 after saying what is wrong."""
    parser = argparse.ArgumentParser(description="Finds published recipes by what they are about.")
    parser.add_argument("text", help="what to look for, such as 두부로 만드는 아침")
    parser.add_argument("-k", type=int, default=5, help="how many, 5 by default")
    arguments = parser.parse_args()
    try:
        settings = settings_from_environment(datetime.now(ZoneInfo("Asia/Seoul")).date())
        embeddings = EmbeddingResource(
            model=settings.openai_embedding_model,
            base_url=settings.openai_base_url,
            timeout_ms=settings.openai_timeout_ms,
            model_prices={
                name: price.model_dump(mode="json") for name, price in settings.model_prices.items()
            },
        )
        from assets.recipes.embedding_calls import recipes_similar_to

        with PostgresResource().connect() as connection:
            found = recipes_similar_to(
                connection, embeddings, arguments.text, arguments.k, settings.daily_spending_cap_usd
            )
    except (SettingsError, ServiceError) as error:
        print(error, file=sys.stderr)
        return 1
    for recipe in found:
        print(f"{recipe.similarity:.3f}  {recipe.title}")
    if not found:
        print("no recipe has a vector yet: launch recipes_fetch, or run `make demo`", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
