#!/bin/sh
# Builds and pushes the operator's image with a container engine, for those who have one. Run it from the root of the repository.
#
#   tools/engine.sh build|push|buildx
#
# CONTAINER_TOOL (docker) is the engine, IMG (dynamo-operator:dev) the image, PLATFORMS (linux/amd64,linux/arm64) what buildx builds for.
set -eu

verb=${1:?usage: tools/engine.sh build|push|buildx}
tool=${CONTAINER_TOOL:-docker}
image=${IMG:-dynamo-operator:dev}
platforms=${PLATFORMS:-linux/amd64,linux/arm64}

if ! command -v "$tool" >/dev/null; then
	echo "make docker-$verb: there is no $tool on this machine; name another engine with CONTAINER_TOOL, or use make images, which needs none" >&2
	exit 1
fi
if ! "$tool" version >/dev/null 2>&1; then
	echo "make docker-$verb: $tool is there, but its engine does not answer; start it, or use make images, which needs none" >&2
	exit 1
fi

case $verb in
build) "$tool" build --tag "$image" . ;;
push) "$tool" push "$image" ;;
buildx) "$tool" buildx build --platform "$platforms" --tag "$image" --push . ;;
*)
	echo "tools/engine.sh: there is no verb $verb" >&2
	exit 2
	;;
esac
