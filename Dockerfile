# The decision service. Settings are environment variables: docs/deploy.md.
#   docker build -t belated . && docker run -p 127.0.0.1:8000:8000 -v belated:/var/lib/belated belated
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY belated belated
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/belated \
    && /opt/belated/bin/pip install --no-cache-dir "$(ls /wheels/belated-*.whl)[service,postgres,otel]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/belated --create-home belated
COPY --from=build /opt/belated /opt/belated
ENV PATH=/opt/belated/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    BELATED_DATABASE=/var/lib/belated/belated.db \
    BELATED_CACHE_DIR=/var/lib/belated/cache \
    BELATED_SERVE_HOST=0.0.0.0 \
    BELATED_SERVE_PORT=8000
USER 10001:10001
WORKDIR /var/lib/belated
VOLUME /var/lib/belated
EXPOSE 8000
STOPSIGNAL SIGTERM
# Not by a proxy, which Docker may be told to give all containers.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['BELATED_SERVE_PORT'] + '/ready', timeout=4)"]
ENTRYPOINT ["belated"]
CMD ["serve"]
