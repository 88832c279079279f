"""MinHash signatures and their comparison."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from assets.economy_news.near_duplicates import SIMILARITY_THRESHOLD, most_similar, signature, similarity

WIRE = " ".join(f"낱말{n} 이어지는 기사{n % 7}" for n in range(120))
OTHER = " ".join(f"다른{n} 내용의 보도{n % 5}" for n in range(120))


def words(start: int, count: int) -> str:
    return " ".join(f"낱말{n}" for n in range(start, start + count))


def test_a_signature_is_512_bytes_and_the_same_everywhere() -> None:
    made = signature("한빛은행이 대출 금리를 내린다고 2일 밝혔다.")
    assert len(made) == 512
    # A changed value means that every stored signature has to be made anew.
    assert hashlib.sha256(made).hexdigest()[:16] == "ae8a99935da15648"


def test_another_process_with_another_hash_seed_makes_the_same_signature() -> None:
    code = f"from assets.economy_news.near_duplicates import signature; print(signature({WIRE!r}).hex())"
    root = Path(__file__).resolve().parents[3]
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == signature(WIRE).hex()


def test_the_same_text_is_entirely_similar_and_another_one_not_at_all() -> None:
    assert similarity(signature(WIRE), signature(WIRE)) == 1.0
    assert similarity(signature(WIRE), signature(OTHER)) < 0.1


def test_case_punctuation_and_line_breaks_do_not_matter() -> None:
    assert signature("GDP가 0.4% 늘었다, 한은은 밝혔다.") == signature("gdp가 0.4%\n늘었다 '한은은' 밝혔다")


def test_the_order_of_words_matters() -> None:
    assert similarity(signature("하나 둘 셋 넷"), signature("넷 셋 둘 하나")) == 0.0


def test_a_wire_story_with_another_byline_is_a_near_duplicate() -> None:
    theirs = "[가온=온누리통신] " + WIRE + " 서도담 기자"
    assert similarity(signature(WIRE), signature(theirs)) >= SIMILARITY_THRESHOLD


@pytest.mark.parametrize(("shared", "expected"), [(150, 1 / 3), (240, 2 / 3), (277, 0.85)])
def test_the_estimate_is_within_four_standard_errors_of_the_truth(shared: int, expected: float) -> None:
    # Two texts of 300 different words, `shared` of them at the end of one and the start of the other.
    one, other = words(0, 300), words(300 - shared, 300)
    truth = (shared - 2) / (2 * 298 - (shared - 2))
    assert truth == pytest.approx(expected, abs=0.02)
    assert abs(similarity(signature(one), signature(other)) - truth) < 4 * (truth * (1 - truth) / 128) ** 0.5


def test_the_estimates_are_not_biased() -> None:
    errors = []
    for n in range(100):
        one, other = words(1000 * n, 120), words(1000 * n + 20, 120)
        errors.append(similarity(signature(one), signature(other)) - 98 / 138)
    assert abs(sum(errors) / len(errors)) < 4 * (0.71 * 0.29 / 128 / 100) ** 0.5


def test_texts_of_one_or_two_words_are_compared_whole() -> None:
    assert similarity(signature("금리 인하"), signature("금리, 인하!")) == 1.0
    assert similarity(signature("금리 인하"), signature("금리 인상")) == 0.0
    assert similarity(signature("금리"), signature("금리 인하")) == 0.0


@pytest.mark.parametrize("text", ["", " ", "… ▶ !"])
def test_a_text_without_words_is_like_nothing(text: str) -> None:
    assert len(signature(text)) == 512
    assert similarity(signature(text), signature(text)) == 0.0
    assert similarity(signature(text), signature(WIRE)) == 0.0
    assert most_similar(signature(text), [(1, signature(text))]) is None


def test_a_lone_surrogate_does_not_break_a_signature() -> None:
    assert len(signature("금리 \ud800 인하 \x00 소식")) == 512


def test_the_most_similar_of_many_is_named_with_its_similarity() -> None:
    near, same = signature(WIRE + " 서도담 기자"), signature(WIRE)
    others = [(10, signature(OTHER)), (11, near), (12, same)]
    assert most_similar(same, others) == (12, 1.0)
    assert most_similar(same, others[:2]) == (11, similarity(same, near))


def test_of_equally_similar_ones_the_first_is_named() -> None:
    same = signature(WIRE)
    assert most_similar(same, [(7, same), (3, same)]) == (7, 1.0)


def test_below_the_threshold_nothing_is_similar() -> None:
    one, other = signature(words(0, 300)), signature(words(150, 300))
    found = similarity(one, other)
    assert most_similar(one, [(1, other)]) is None
    assert most_similar(one, [(1, other)], threshold=found) == (1, found)
    assert most_similar(one, []) is None


def test_a_signature_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="512 bytes"):
        similarity(signature(WIRE), b"short")
    with pytest.raises(ValueError, match="512 bytes"):
        most_similar(signature(WIRE), [(1, signature(WIRE)), (2, signature(WIRE) * 2)])
