// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// lwsNamespace is where the controller looks for its own objects when it does not run in a pod.
	lwsNamespace = "lws-system"
	// lwsPodLabel is on every pod of a LeaderWorkerSet. The manifests that come with the binary lack the selector that the
	// project's own deployment adds, and without it the controller would be asked about every pod in the cluster.
	lwsPodLabel = "leaderworkerset.sigs.k8s.io/name"
)

// lwsAccess gives the controller the role that comes with its binary, which kustomize would otherwise rename and bind,
// and a namespace of its own.
const lwsAccess = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + lwsNamespace + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: dynamo-local:lws
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: manager-role
subjects:
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: ` + userLWS + `
`

// startLWS installs the LeaderWorkerSet API and runs its controller as a plain process.
func (c *Cluster) startLWS(ctx context.Context) error {
	if !c.opts.LWS {
		return c.silenceLWS(ctx)
	}
	c.say("starting the LeaderWorkerSet controller")
	if err := c.installLWS(ctx); err != nil {
		return fmt.Errorf("install LeaderWorkerSet: %w", err)
	}
	if err := c.writeLWSConfig(); err != nil {
		return err
	}
	if err := c.run(ctx, c.lwsComponent()); err != nil {
		return err
	}
	// The controller answers its health probe before it registers its webhooks.
	webhook := loopback(c.record.Ports[portLWSWebhook])
	err := poll(ctx, readyTimeout, "the webhooks of LeaderWorkerSet do not answer", func(ctx context.Context) (bool, error) {
		return c.prober.serves(ctx, Probe{URL: "https://" + webhook + "/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset", Trust: trustCluster}), nil
	})
	if err != nil {
		return err
	}
	return c.installLWSWebhooks(ctx)
}

// silenceLWS removes the webhooks of a controller that an earlier run of the same state had and this one has not.
func (c *Cluster) silenceLWS(ctx context.Context) error {
	if !c.hadLWS {
		return nil
	}
	api, err := c.clientset()
	if err != nil {
		return err
	}
	hooks := api.AdmissionregistrationV1()
	err = hooks.MutatingWebhookConfigurations().Delete(ctx, "lws-mutating-webhook-configuration", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove webhooks of LeaderWorkerSet: %w", err)
	}
	err = hooks.ValidatingWebhookConfigurations().Delete(ctx, "lws-validating-webhook-configuration", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove webhooks of LeaderWorkerSet: %w", err)
	}
	return nil
}

// installLWS applies what the controller needs before it starts.
func (c *Cluster) installLWS(ctx context.Context) error {
	config, err := c.RESTConfig(UserAdmin)
	if err != nil {
		return err
	}
	definitions, err := c.lwsManifests("config/crd/bases/*.yaml")
	if err != nil {
		return err
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, len(definitions))
	for i, object := range definitions {
		crds[i] = &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crds[i]); err != nil {
			return fmt.Errorf("decode CRD %s: %w", object.GetName(), err)
		}
	}
	if err := InstallCRDs(ctx, config, crds); err != nil {
		return err
	}
	role, err := c.lwsManifests("config/rbac/role.yaml")
	if err != nil {
		return err
	}
	if err := ApplyObjects(ctx, config, fieldManager, role); err != nil {
		return err
	}
	return c.applyManifest(ctx, []byte(lwsAccess))
}

// installLWSWebhooks applies the webhook configurations that come with the binary, pointed at the process instead of at
// a Service. They come after the controller answers, because until then every pod of a LeaderWorkerSet would be refused.
func (c *Cluster) installLWSWebhooks(ctx context.Context) error {
	objects, err := c.lwsManifests("config/webhook/manifests.yaml")
	if err != nil {
		return err
	}
	base := "https://" + loopback(c.record.Ports[portLWSWebhook])
	for _, object := range objects {
		object.SetName("lws-" + object.GetName())
		if err := redirectWebhooks(object, base, c.pki.cluster.cert); err != nil {
			return fmt.Errorf("%s of LeaderWorkerSet: %w", object.GetKind(), err)
		}
	}
	config, err := c.RESTConfig(UserAdmin)
	if err != nil {
		return err
	}
	return ApplyObjects(ctx, config, fieldManager, objects)
}

// redirectWebhooks makes the API server call base instead of a Service and limits webhooks for pods to those of
// LeaderWorkerSets.
func redirectWebhooks(configuration *unstructured.Unstructured, base string, authority []byte) error {
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return fmt.Errorf("read webhooks: %w", err)
	}
	for _, entry := range webhooks {
		webhook, ok := entry.(map[string]any)
		if !ok {
			return errors.New("a webhook is not an object")
		}
		path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil {
			return fmt.Errorf("read path of webhook: %w", err)
		}
		target, err := url.JoinPath(base, path)
		if err != nil {
			return fmt.Errorf("address of webhook: %w", err)
		}
		webhook["clientConfig"] = map[string]any{
			"url": target, "caBundle": base64.StdEncoding.EncodeToString(authority),
		}
		if strings.HasSuffix(path, "-v1-pod") {
			webhook["objectSelector"] = map[string]any{"matchExpressions": []any{
				map[string]any{"key": lwsPodLabel, "operator": "Exists"},
			}}
		}
	}
	if err := unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"); err != nil {
		return fmt.Errorf("change webhooks: %w", err)
	}
	return nil
}

// lwsManifests decodes the files matching pattern that were stored next to the controller's binary.
func (c *Cluster) lwsManifests(pattern string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(c.binaries[c.opts.lws()]), extrasDirectory, filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("the cache has no %s next to %s", pattern, c.binaries[c.opts.lws()])
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		decoded, err := decodeFile(file)
		if err != nil {
			return nil, err
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

func decodeFile(path string) ([]*unstructured.Unstructured, error) {
	stream, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open manifest: %w", err)
	}
	defer func() { _ = stream.Close() }()
	objects, err := DecodeManifest(stream)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}

// writeLWSConfig configures the controller: listeners on this machine only, our certificates instead of its own
// rotation, no election because there is one.
func (c *Cluster) writeLWSConfig() error {
	certificates := c.path("lws-certs")
	for from, to := range map[string]string{
		c.pki.certFile(servingPair): "tls.crt",
		c.pki.keyFile(servingPair):  "tls.key",
	} {
		if err := copyFile(from, filepath.Join(certificates, to)); err != nil {
			return err
		}
	}
	config := fmt.Sprintf(`apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
webhook:
  host: 127.0.0.1
  port: %d
  certDir: %s
leaderElection:
  leaderElect: false
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: %s
internalCertManagement:
  enable: false
`, c.record.Ports[portLWSWebhook], certificates, loopback(c.record.Ports[portLWSHealth]))
	return writeFileAtomically(c.path("lws.yaml"), []byte(config), 0o644)
}

func (c *Cluster) lwsComponent() component {
	return component{
		name: c.opts.lws(), path: c.binaries[c.opts.lws()], grace: clientGrace,
		args: []string{
			"--config=" + c.path("lws.yaml"),
			"--kubeconfig=" + kubeconfigPath(c.opts.StateDir, userLWS),
			"--zap-log-level=info",
		},
		address: "https://" + loopback(c.record.Ports[portLWSWebhook]),
		probe:   Probe{URL: "http://" + loopback(c.record.Ports[portLWSHealth]) + "/readyz"},
	}
}
