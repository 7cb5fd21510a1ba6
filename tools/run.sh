#!/bin/sh
# Runs the operator of bin/operator in front of you, with the flags that are given. Run it from the root of the repository.
#
# The cluster is that of KUBECONFIG, or else the one of make cluster-up. Where make deploy has registered webhooks, somebody has to
# answer them before a graph can be created. On the local cluster nobody else can, so this operator does. The API server of another
# cluster does not find this machine by itself: WEBHOOK_URL, such as https://192.0.2.1:9443, tells it where to look.
#
# It works only while it has the Lease that operators of the whole cluster share, and says for whom it stands by.
set -eu

# is_address tells that a text is https, a host and a port in one line, of which the operator can make a configuration.
is_address() {
	[ "$(printf '%s\n' "$1" | wc -l)" -eq 1 ] || return 1
	printf '%s\n' "$1" | grep -Eqx 'https://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}' && [ "${1##*:}" -le 65535 ]
}
url=${WEBHOOK_URL:-}
if [ -n "$url" ] && ! is_address "$url"; then
	echo "make run: WEBHOOK_URL $url is not an address such as https://192.0.2.1:9443: name https, a host and a port, and no path" >&2
	exit 1
fi

local=$(bin/dynamo-local kubeconfig 2>/dev/null || true)
KUBECONFIG=${KUBECONFIG:-$local}
if [ -z "$KUBECONFIG" ]; then
	echo 'make run: set KUBECONFIG, or start a cluster with make cluster-up' >&2
	exit 1
fi
export KUBECONFIG
kubectl=$(command -v kubectl || echo "$(bin/dynamo-local bin)/kubectl")

[ -n "$url" ] || [ "$KUBECONFIG" != "$local" ] || url=https://127.0.0.1:9443
webhooks='enabled: false'
if [ -n "$("$kubectl" get validatingwebhookconfigurations dynamo-operator-validating --ignore-not-found -o name)" ]; then
	if [ -n "$url" ]; then
		echo "run: answering the webhooks of the cluster at $url" >&2
		webhooks="enabled: true, port: ${url##*:}, clientURL: '$url'"
		case $url in https://127.0.0.1:*) webhooks="$webhooks, bindAddress: 127.0.0.1" ;; esac
		# The Secret with the certificate authority is in the namespace that make deploy has made.
		POD_NAMESPACE=dynamo-system
		export POD_NAMESPACE
	else
		echo 'run: this cluster has webhooks, which an operator inside has to answer; WEBHOOK_URL tells where it can reach this one' >&2
	fi
fi

# An operator of one namespace has its Lease there: it works beside that of the whole cluster.
election=kube-system
before=
for argument; do
	case $argument in --restrictedNamespace=* | -restrictedNamespace=*) election=${argument#*=} ;; esac
	case $before in --restrictedNamespace | -restrictedNamespace) election=$argument ;; esac
	before=$argument
done

mkdir -p bin/run
cat >bin/run/operator.yaml <<END
apiVersion: config.nvidia.com/v1alpha1
kind: OperatorConfiguration
plannerClusterRoleName: dynamo-operator-planner
eppClusterRoleName: dynamo-operator-epp
leaderElection: {enabled: true, id: dynamo.nvidia.com, namespace: '$election'}
healthProbeBindAddress: 127.0.0.1:8081
metrics: {bindAddress: '127.0.0.1:8080'}
webhooks: {$webhooks}
END
exec bin/operator --config=bin/run/operator.yaml "$@"
