"""The bodies that the API answers with: pages of rows, and every code in each shape it may come in."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from local_stack.recipe_api.recipes import Row

SERVICE = "COOKRCP01"
JSON_TYPE = "application/json;charset=UTF-8"
XML_TYPE = "text/xml;charset=UTF-8"
HTML_TYPE = "text/html;charset=UTF-8"

Shape = Literal["wrapped", "bare", "xml", "gateway_xml", "html"]

MESSAGES = {
    "INFO-000": "정상 처리",
    "INFO-100": "인증키가 유효하지 않습니다.",
    "INFO-200": "해당 데이터가 없습니다.",
    "INFO-300": "호출 건수를 모두 썼습니다.",
    "INFO-400": "이 서비스에 대한 권한이 없습니다.",
    "ERROR-300": "필수 값이 빠졌습니다.",
    "ERROR-301": "파일 형식을 확인하십시오.",
    "ERROR-310": "없는 서비스입니다.",
    "ERROR-331": "시작 위치를 확인하십시오.",
    "ERROR-332": "종료 위치를 확인하십시오.",
    "ERROR-334": "시작 위치가 종료 위치보다 큽니다.",
    "ERROR-336": "한 번에 1000건까지만 요청할 수 있습니다.",
    "ERROR-500": "서버 오류입니다.",
    "ERROR-601": "SQL 오류입니다.",
}
# What the gateway in front of such services says instead of a code of their own.
_GATEWAY = {
    "INFO-100": ("30", "SERVICE_KEY_IS_NOT_REGISTERED_ERROR"),
    "INFO-300": ("22", "LIMITED_NUMBER_OF_SERVICE_REQUESTS_EXCEEDS_ERROR"),
    "INFO-400": ("20", "SERVICE_ACCESS_DENIED_ERROR"),
}
_ANY_OTHER = ("1", "APPLICATION_ERROR")


def page(rows: Sequence[Row], total: int) -> bytes:
    """A page as JSON; `total` counts all recipes there are."""
    return _json({SERVICE: {"total_count": str(total), "row": list(rows), "RESULT": _result("INFO-000")}})


def report(code: str, shape: Shape = "wrapped") -> tuple[bytes, str]:
    """Body and content type of an answer that is only a code. Raises KeyError for an unknown code."""
    message = MESSAGES[code]
    if shape == "wrapped":
        return _json({SERVICE: {"total_count": "0", "row": [], "RESULT": _result(code)}}), JSON_TYPE
    if shape == "bare":
        return _json({"RESULT": _result(code)}), JSON_TYPE
    if shape == "xml":
        return _xml(f"<RESULT><CODE>{code}</CODE><MSG>{message}</MSG></RESULT>"), XML_TYPE
    if shape == "gateway_xml":
        number, name = _GATEWAY.get(code, _ANY_OTHER)
        header = f"<returnAuthMsg>{name}</returnAuthMsg><returnReasonCode>{number}</returnReasonCode>"
        inside = f"<cmmMsgHeader><errMsg>SERVICE ERROR</errMsg>{header}</cmmMsgHeader>"
        return _xml(f"<OpenAPI_ServiceResponse>{inside}</OpenAPI_ServiceResponse>"), XML_TYPE
    alert = f'<script type="text/javascript">alert("{message}"); history.back();</script>'
    return f"<!DOCTYPE html>\n<html><head>{alert}</head><body></body></html>".encode(), HTML_TYPE


def _result(code: str) -> dict[str, str]:
    return {"MSG": MESSAGES[code], "CODE": code}


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode()


def _xml(inside: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{inside}'.encode()
