"""What does a failure of the API server mean for the action that met it? Every way to fail, as data: used for an action
as a whole, and for each pod of an action on many.
"""

from __future__ import annotations

from collections.abc import Awaitable

import structlog

from growth.kube.api import errors
from growth.model.outcome import Conflict, Outcome, Refused, TryLater, Unknown

log = structlog.get_logger(__name__)


async def outcome_of(performed: Awaitable[Outcome]) -> Outcome:
    """What came of it; never raises."""
    try:
        return await performed
    except (errors.Conflict, errors.NotFound, errors.AlreadyExists) as error:
        return Conflict(str(error))
    except errors.TooManyRequests as error:
        return TryLater(str(error), retry_after_seconds=error.retry_after_seconds or 5.0)
    except (errors.NotLeader, errors.Unreachable, errors.ServerError, errors.Unauthorized) as error:
        return TryLater(str(error))  # unauthorized: the token was rotated, and is read again
    except (errors.EffectUnknown, errors.UnreadableAnswer) as error:
        return Unknown(str(error))
    except errors.Refused as error:
        return Refused(str(error))
    except Exception as error:  # our own mistake: the other actions go on, and this one may have had its effect
        log.exception("an action failed in a way that nobody foresaw")
        return Unknown(f"{type(error).__name__}: {error}")
