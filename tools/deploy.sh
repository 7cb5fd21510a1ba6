#!/bin/sh
# Puts our definitions or all of the operator into a cluster, or takes them away. Run it from the root of the repository.
#
#   tools/deploy.sh install      the definitions
#   tools/deploy.sh uninstall    the definitions, and with them every graph
#   tools/deploy.sh deploy       definitions, rights, operator and webhooks; IMG names the image
#   tools/deploy.sh undeploy     the same but for the definitions, the namespace and the rights of planners and endpoint pickers, so that
#                                graphs stay and go on running
#
# The cluster is that of KUBECONFIG, or else the one of make cluster-up. kubectl is the machine's, or else the local cluster's.
set -eu

verb=${1:?usage: tools/deploy.sh install|uninstall|deploy|undeploy}
image=${IMG:-dynamo-operator:dev}

if [ -z "${KUBECONFIG:-}" ]; then
	KUBECONFIG=$(bin/dynamo-local kubeconfig) || { echo "make $verb: set KUBECONFIG, or start a cluster with make cluster-up" >&2; exit 1; }
	export KUBECONFIG
fi
kubectl=$(command -v kubectl || echo "$(bin/dynamo-local bin)/kubectl")

# What follows the last slash may have a tag; a registry before it may have a port.
case ${image##*/} in
*@*) name=${image%%@*} tag='' digest=${image#*@} ;;
*:*) name=${image%:*} tag=${image##*:} digest='' ;;
*) name=$image tag='' digest='' ;;
esac

# version is what the operator calls itself and stamps new graphs with: the tag, if that is a version. Under another tag it goes by
# that of its build, which unknown stands for. The image that is there without IMG has the version that the manifests name.
case $tag in
[0-9]*) version=$tag ;;
v[0-9]*) version=${tag#v} ;;
*) version=unknown ;;
esac

# overlay writes a kustomization of the directories of config that are named, with the image in it.
overlay() {
	mkdir -p bin/deploy
	{
		echo 'apiVersion: kustomize.config.k8s.io/v1beta1'
		echo 'kind: Kustomization'
		echo 'resources:'
		for directory in "$@"; do
			echo "- ../../config/$directory"
		done
		echo 'images:'
		echo "- name: dynamo-operator"
		echo "  newName: $name"
		[ -z "$tag" ] || echo "  newTag: '$tag'"
		[ -z "$digest" ] || echo "  digest: $digest"
	} >bin/deploy/kustomization.yaml
}

case $verb in
install) "$kubectl" apply --server-side -k config/crd ;;
uninstall) "$kubectl" delete --ignore-not-found -k config/crd ;;
deploy)
	overlay default
	[ -z "${IMG:-}" ] || printf '%s\n' 'patches:' '- target: {kind: Deployment, name: dynamo-operator}' '  patch: |-' \
		"    - {op: replace, path: /spec/template/spec/containers/0/args/1, value: --operator-version=$version}" >>bin/deploy/kustomization.yaml
	# An operator outside the cluster, such as that of make run, has left its address there, which does not go with a Service.
	if [ -n "$("$kubectl" get validatingwebhookconfigurations dynamo-operator-validating --ignore-not-found -o 'jsonpath={.webhooks[*].clientConfig.url}')" ]; then
		"$kubectl" delete validatingwebhookconfigurations/dynamo-operator-validating mutatingwebhookconfigurations/dynamo-operator-mutating
	fi
	"$kubectl" apply --server-side -k bin/deploy
	[ "$KUBECONFIG" != "$(bin/dynamo-local kubeconfig 2>/dev/null || true)" ] ||
		echo 'deploy: the local cluster runs no images: make run runs the operator, which answers the webhooks; without it no graph can be created' >&2
	;;
undeploy)
	# The webhooks first: with nobody to answer them, nothing of ours could be written.
	overlay webhook
	"$kubectl" delete --ignore-not-found -k bin/deploy
	overlay manager rbac
	# The namespace may hold what is not ours. To the roles point bindings in the namespaces of graphs that run.
	printf '%s\n' 'patches:' '- patch: |' '    apiVersion: v1' '    kind: Namespace' '    metadata: {name: dynamo-system}' '    $patch: delete' \
		>>bin/deploy/kustomization.yaml
	for role in dynamo-operator-planner dynamo-operator-epp; do
		printf '%s\n' '- patch: |' '    apiVersion: rbac.authorization.k8s.io/v1' '    kind: ClusterRole' "    metadata: {name: $role}" '    $patch: delete' \
			>>bin/deploy/kustomization.yaml
	done
	"$kubectl" delete --ignore-not-found -k bin/deploy
	echo 'undeploy: the ClusterRoles dynamo-operator-planner and dynamo-operator-epp stay, for the graphs that run' >&2
	;;
*)
	echo "tools/deploy.sh: there is no verb $verb" >&2
	exit 2
	;;
esac
