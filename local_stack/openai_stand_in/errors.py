"""The one exception of the stand-in: an answer in OpenAI's error shape."""

from typing import Any

_TYPE_BY_STATUS = {
    401: "invalid_request_error",
    429: "requests",
    500: "server_error",
    502: "server_error",
    503: "server_error",
    504: "server_error",
}


class ApiError(Exception):
    """A refusal with its HTTP status and the fields of OpenAI's `error` object.

    `error_type` defaults to the type the real API uses with that status.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        error_type: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.error_type = error_type or _TYPE_BY_STATUS.get(status, "invalid_request_error")
        self.param = param
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """The JSON body, `{"error": {message, type, param, code}}`."""
        error = {"message": self.message, "type": self.error_type, "param": self.param, "code": self.code}
        return {"error": error}


def bad_request(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400 `invalid_request_error`."""
    return ApiError(400, message, code=code, param=param)


def not_found(message: str, *, code: str | None = None) -> ApiError:
    """A 404 `invalid_request_error`."""
    return ApiError(404, message, code=code)
