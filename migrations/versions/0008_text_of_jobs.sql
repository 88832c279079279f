-- The same text, from a function that stands in FROM: the planner takes its body into the statement, where the scalar
-- one was set up anew for each job, which was most of what a claim took.
DROP FUNCTION news.text_asked_about;

-- What a job of that kind reads, one row always: the body, the full summary that counts, or the cards that count.
CREATE FUNCTION news.text_asked_about(article bigint, kind text) RETURNS TABLE (asked_text text)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT CASE kind
        WHEN 'SUMMARY' THEN (SELECT source.body FROM news.article AS source WHERE source.id = article)
        WHEN 'QUIZ_TERM' THEN (
            SELECT string_agg(card.term || ': ' || card.definition, E'\n' ORDER BY card.position)
            FROM news.result_and_input(article, 'TERM_CARDS') AS result
            JOIN news.term_card AS card ON card.result_id = result.result_id)
        ELSE (
            SELECT summary.summary_full
            FROM news.result_and_input(article, 'SUMMARY') AS result
            JOIN news.summary AS summary ON summary.result_id = result.result_id)
        END
$$;
