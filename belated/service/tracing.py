"""OpenTelemetry traces, if they are asked for: a span for every request, for what it waits for, and for every batch.

Where they go, and how many, is said by the variables that all programs share: OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and so on. What a `traceparent` header names is the parent of a request.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from belated.errors import InvalidArgument
from belated.service.asgi import Scope
from belated.service.requests import Seen
from belated.service.seldom import Seldom

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

#: One of these asks for traces as `--traces` does.
ADDRESSES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
#: Seconds that what is left is given in the end; and who says that a collector does not answer, again and again.
LAST = 1.0
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
NOTHING = nullcontext()
MISSING = "traces need opentelemetry: pip install 'belated[otel]'"


def wanted(asked: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether there shall be traces.

    >>> wanted(False, {}), wanted(True, {}), wanted(False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"})
    (False, True, True)
    >>> wanted(True, {"OTEL_SDK_DISABLED": "true"}), wanted(True, {"OTEL_TRACES_EXPORTER": "none"})
    (False, False)
    """
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return asked or environment.get("OTEL_TRACES_EXPORTER") == "otlp" or any(map(environment.get, ADDRESSES))


def check(asked: bool) -> None:
    """Say what is missing, before anything is begun."""
    try:
        if wanted(asked):
            import opentelemetry.exporter.otlp.proto.http.trace_exporter
            import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        raise InvalidArgument(f"{MISSING} ({error})") from None


def nothing(name: str) -> AbstractContextManager[Any]:
    """The span where there are no traces."""
    return NOTHING


def start(asked: bool) -> Tracer | None:
    """What makes spans, if there shall be some."""
    return Tracer() if wanted(asked) else None


class Tracer:
    """Makes spans and hands them to an exporter, from a thread of its own."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        check(True)
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        named = Resource.create() if os.environ.get("OTEL_SERVICE_NAME") else Resource.create({SERVICE_NAME: "belated"})
        logging.getLogger(EXPORTER).filters = [Seldom()]
        self._provider = TracerProvider(resource=named, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("belated")
        self._propagator = TraceContextTextMapPropagator()
        self._trace: Any = trace

    @contextmanager
    def request(self, scope: Scope, headers: dict[bytes, bytes], number: str, seen: Seen) -> Iterator[None]:
        """A span around the answer to a request."""
        carrier = {
            name: headers[name.encode()].decode("latin-1")
            for name in ("traceparent", "tracestate")
            if name.encode() in headers
        }
        kind = self._trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(
            scope["method"], self._propagator.extract(carrier), kind, record_exception=False
        ) as span:
            try:
                yield
            finally:
                if span.is_recording():
                    self._describe(span, scope, number, seen)

    def _describe(self, span: Any, scope: Scope, number: str, seen: Seen) -> None:
        attributes: dict[str, Any] = {
            "http.request.method": scope["method"],
            "url.path": scope["path"],
            "url.scheme": scope["scheme"],
            "http.response.status_code": seen.status,
            "belated.request": number,
        }
        if scope.get("client"):
            attributes["client.address"] = scope["client"][0]
        if seen.route:
            span.update_name(seen.route)
            attributes["http.route"] = seen.route.partition(" ")[2]
        span.set_attributes(attributes)
        if seen.status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)

    def span(self, name: str) -> AbstractContextManager[Any]:
        """A span within the one around it."""
        return self._tracer.start_as_current_span(name)

    def batch(self, items: int, weight: int, seconds: float) -> None:
        """A batch was served, just now."""
        end = time.time_ns()
        attributes = {"belated.requests": items, "belated.decisions_and_feedback": weight}
        span = self._tracer.start_span(
            "belated.batch", self._trace.set_span_in_context(self._trace.INVALID_SPAN), attributes=attributes,
            start_time=end - int(1e9 * seconds),
        )  # fmt: skip
        span.end(end)

    def close(self) -> None:
        """Send what is left; a collector that does not answer holds nobody up."""
        last = threading.Thread(target=self._provider.shutdown, name="belated traces", daemon=True)
        last.start()
        last.join(LAST)


def both(one: Callable[[int, int, float], None], tracer: Tracer | None) -> Callable[[int, int, float], None]:
    """Tell the metrics of a batch, and the traces if there are some."""
    if tracer is None:
        return one

    def tell(items: int, weight: int, seconds: float) -> None:
        one(items, weight, seconds)
        tracer.batch(items, weight, seconds)

    return tell
