# The image of the operator, for those who build with Docker or Podman. `make images` needs neither, and makes archives that are
# the same wherever they are built with the Go that is named here; this file makes the same program, files, user and entry point.
#
#   docker build -t dynamo-operator:dev .
#   docker build -t dynamo-operator:1.2.3 --build-arg VERSION=1.2.3 .
#   docker build -t mocker:dev --target mocker .

FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api/ api/
COPY cmd/ cmd/
COPY config/ config/
COPY internal/ internal/
ARG VERSION=0.0.0-dev
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN go build -trimpath -buildvcs=false -ldflags="-s -w -buildid= -X github.com/dynamo-operator/dynamo-operator/internal/operator/config.linked=$VERSION" \
    -o /out/ ./cmd/operator ./cmd/mocker
RUN mkdir /scratch && chmod 1777 /scratch \
    && mkdir -p /links/bin /links/usr/bin \
    && for name in sh bash sleep; do ln -s /mocker "/links/bin/$name"; done \
    && for name in python python3 ray mpirun trtllm-llmapi-launch; do ln -s /mocker "/links/usr/bin/$name"; done \
    && ln -s /dynamo-operator /links/manager \
    && mkdir /accounts \
    && echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >/accounts/passwd \
    && echo 'nonroot:x:65532:' >/accounts/group

FROM scratch AS mocker
COPY --from=build /scratch /tmp
COPY --from=build /accounts /etc
COPY --from=build /links/bin /bin
COPY --from=build /links/usr/bin /usr/bin
COPY --from=build /out/mocker /mocker
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["/mocker"]

FROM scratch AS operator
COPY --from=build /scratch /tmp
COPY --from=build /accounts /etc
COPY --from=build /out/operator /dynamo-operator
COPY --from=build /links/manager /manager
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["/manager"]
