"""Everything that belated raises on purpose.

```
BelatedError
├── InvalidArgument (ValueError)   an argument out of range, of the wrong type or shape; the message names the value
│   ├── InvalidFeedback            feedback that is NaN, out of range, or of the wrong shape
│   └── Unsupported                a combination outside a forecaster's conditions, with the reason
├── TicketError (LookupError)      a ticket that cannot be used
│   ├── UnknownTicket              never given out by this forecaster
│   └── ClosedTicket               answered or cancelled before
├── BadPrediction (RuntimeError)   a learner returned an action outside 0..K-1 or an impossible probability
├── BadKernel (TypeError)          a kernel of a learner, game or delay law cannot work; with its file and line
├── InvalidState (ValueError)      bytes that are not a forecaster, damaged, or of another version
├── CertificateError (RuntimeError)  a run broke one of the paper's identities: a defect, never bad luck
└── ServiceError (RuntimeError)    a decision service refused, or could not be reached; with `kind` and `status`
```
"""

from __future__ import annotations


class BelatedError(Exception):
    """The root of all errors that belated raises on purpose."""


class InvalidArgument(BelatedError, ValueError):
    """An argument out of range, of the wrong type or of the wrong shape."""


class InvalidFeedback(InvalidArgument):
    """Feedback that is NaN, out of range, or of the wrong shape."""


class Unsupported(InvalidArgument):
    """A combination outside a forecaster's conditions."""


class TicketError(BelatedError, LookupError):
    """A ticket that cannot be used."""


class UnknownTicket(TicketError):
    """A ticket that this forecaster never gave out."""


class ClosedTicket(TicketError):
    """A ticket that was answered or cancelled before."""


class BadPrediction(BelatedError, RuntimeError):
    """A learner returned an action outside 0..K-1 or an impossible probability."""


class BadKernel(BelatedError, TypeError):
    """A kernel of a learner, game or delay law that cannot work. The message says whose, which, where and why."""


class InvalidState(BelatedError, ValueError):
    """Bytes that are not a saved forecaster, are damaged, or come from another version."""


class CertificateError(BelatedError, RuntimeError):
    """A run broke one of the paper's identities."""


class ServiceError(BelatedError, RuntimeError):
    """A decision service refused a request, or could not be reached.

    `kind` is for programs: the service's own word, such as "unknown_ticket", or "unreachable". `status` is the HTTP
    status; None where there is none of its own.
    """

    def __init__(self, kind: str, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status

    def __reduce__(self) -> tuple[type[ServiceError], tuple[str, str, int | None]]:
        return type(self), (self.kind, str(self), self.status)
