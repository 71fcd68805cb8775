"""What the API server's refusals mean to people: what to do about them."""

from __future__ import annotations

import pytest

from growth.kube.api.errors import error_from_answer, what_to_do, with_advice

STATUS = '{"kind": "Status", "reason": "%s", "message": "%s", "code": %d}'


def refusal(code: int, reason: str = "", message: str = "no") -> Exception:
    body = STATUS % (reason, message, code) if reason else message
    return error_from_answer(code, {}, body.encode())


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (refusal(401, "Unauthorized"), "does not accept the credentials"),
        (refusal(403, "Forbidden"), "growth role | kubectl apply"),
        (refusal(404, message="404 page not found"), "growth crds | kubectl apply"),
        (refusal(404, "NotFound", "the server could not find the requested resource"), "growth crds | kubectl apply"),
    ],
)
def test_what_a_person_can_repair_comes_with_what_to_do(error: Exception, advice: str) -> None:
    assert advice in what_to_do(error)
    assert with_advice(error) == f"{error}; {what_to_do(error)}"


@pytest.mark.parametrize(
    "error", [refusal(404, "NotFound", "pods 'web' not found"), refusal(409, "Conflict"), ValueError("own words")]
)
def test_other_errors_speak_for_themselves(error: Exception) -> None:
    assert with_advice(error) == str(error)
