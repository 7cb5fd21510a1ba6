// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package input is what renderers know: one component, the graph around it and the operator's settings. Renderers take
// it and nothing else, so that equal inputs give equal objects.
package input

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Settings are the operator's settings that reach rendered objects.
type Settings struct {
	NATSAddress        string
	EtcdAddress        string
	ModelExpressURL    string
	PrometheusEndpoint string
	DiscoveryBackend   string

	// IngressClass, IngressTLSSecret, IngressHostSuffix and IstioGateway publish every frontend that says nothing else.
	IngressClass      string
	IngressTLSSecret  string
	IngressHostSuffix string
	IstioGateway      string

	// ClusterWide operators make the accounts of planners and endpoint pickers; a restricted one finds them made.
	ClusterWide        bool
	PlannerClusterRole string
	EPPClusterRole     string

	// DebuggerImage runs beside the main container of a component in debug mode.
	DebuggerImage string

	// GroveTerminationDelay is how long Grove tolerates a gang below its minimum, 0 or less for Grove's own default.
	GroveTerminationDelay time.Duration

	// SSHSecret is the Secret with the key pair of mpirun: its name everywhere, and the namespace of the original.
	SSHSecret          string
	SSHSecretNamespace string

	// SSHKey is what that Secret holds, empty while nobody has needed it.
	SSHKey KeyPair

	// Serves are the optional APIs of the cluster, which may come and go while the operator runs.
	Serves Capabilities
}

// KeyPair is the key with which mpirun logs in to its workers, in the forms that ssh reads.
type KeyPair struct{ Private, Public []byte }

// Fingerprint tells two pairs apart without giving them away.
func (k KeyPair) Fingerprint() string {
	sum := sha256.Sum256(slices.Concat(k.Private, []byte{0}, k.Public))
	return hex.EncodeToString(sum[:8])
}

// Capabilities are optional APIs that a cluster may serve.
type Capabilities struct {
	Grove, LWS, Volcano, KAI, InferencePool, Istio bool
}

// Add marks an API as served by the name that users give it, and tells whether there is one of that name.
func (c *Capabilities) Add(name string) bool {
	flag, ok := map[string]*bool{
		"grove": &c.Grove, "lws": &c.LWS, "volcano": &c.Volcano, "kai": &c.KAI, "istio": &c.Istio, "inferencepool": &c.InferencePool,
	}[name]
	if ok {
		*flag = true
	}
	return ok
}

// Component is one component and where it stands.
type Component struct {
	// Name is that of the DynamoComponentDeployment and of its workload.
	Name      string
	Namespace string
	// Graph is the name of the graph the component belongs to, empty for one that stands alone.
	Graph     string
	Framework string
	Spec      *v1alpha1.DynamoComponentDeploymentSharedSpec
	// Labels are those of the DynamoComponentDeployment object, without our bookkeeping.
	Labels map[string]string
	// Path is where Spec stands in what the user wrote, for error messages.
	Path     *field.Path
	Settings Settings
	World    World
	// OnGrove tells that the component is a clique of its graph's PodCliqueSet.
	OnGrove bool
}

// World is what rendering has to know about the namespace around a component.
type World struct {
	// PullSecrets are the registry credentials found for the component's image.
	PullSecrets []string `json:"pullSecrets,omitempty"`
	// Account is the ServiceAccount marked for component pods, empty for none.
	Account string `json:"account,omitempty"`
	// Volcano tells that Volcano schedules the groups of a component of several nodes, each group as a gang.
	Volcano bool `json:"volcano,omitempty"`
}

// IsEmpty tells whether nothing was found.
func (w World) IsEmpty() bool { return len(w.PullSecrets) == 0 && w.Account == "" && !w.Volcano }

// Graph is what rendering has to know about the place of a whole graph.
type Graph struct {
	Settings Settings
	// OnGrove tells that the graph becomes a PodCliqueSet and not components.
	OnGrove bool
	// Live is its PodCliqueSet, nil for none.
	Live *grovev1alpha1.PodCliqueSet
	// Worlds are the surroundings of each service. Components of other graphs find theirs themselves.
	Worlds map[string]World
	// Replicas are the numbers that scaling adapters hold for services. They win over those that the graph has: a graph
	// that was applied without them, or with others, has those only until an adapter has put its own back.
	Replicas map[string]int32
	// Restarts are the restart tokens that services carry.
	Restarts map[string]string
}

// FromDeployment views a DynamoComponentDeployment as a component. Path is nil for "spec" of that object itself.
func FromDeployment(c *v1alpha1.DynamoComponentDeployment, s Settings, path *field.Path) Component {
	if path == nil {
		path = field.NewPath("spec")
	}
	labels := maps.Clone(c.Labels)
	delete(labels, names.LabelApplied)
	return Component{
		Name: c.Name, Namespace: c.Namespace, Graph: graphOf(c),
		Framework: c.Spec.BackendFramework, Spec: &c.Spec.DynamoComponentDeploymentSharedSpec,
		Labels: labels, Path: path, Settings: s,
	}
}

// graphOf is the name of the graph a component was made for. One that lost its owner reference keeps the label, and its
// pods must not change for it.
func graphOf(c *v1alpha1.DynamoComponentDeployment) string {
	if graph := c.GetParentGraphDeploymentName(); graph != "" {
		return graph
	}
	return c.Spec.Labels[names.LabelGraph]
}

// DynamoNamespace is the name space in which the component's processes find each other.
func (c Component) DynamoNamespace() string {
	graph := c.Graph
	if graph == "" {
		graph = c.Name
		if own := c.Spec.DynamoNamespace; own != nil && *own != "" && !c.Spec.GlobalDynamoNamespace {
			return *own
		}
	}
	return v1alpha1.ComputeDynamoNamespace(c.Spec.GlobalDynamoNamespace, c.Namespace, graph)
}

// Discovery is the discovery back end of the component: its own annotation if that says something, else the operator's
// setting.
func (c Component) Discovery() string {
	if own := c.Spec.Annotations[names.AnnotationDiscoveryBackend]; own != "" {
		return own
	}
	return c.Settings.DiscoveryBackend
}

// Parent is the graph's name, or the component's own where there is no graph.
func (c Component) Parent() string {
	if c.Graph == "" {
		return c.Name
	}
	return c.Graph
}

// IsFrontend tells whether the component takes users' requests.
func (c Component) IsFrontend() bool { return c.Spec.ComponentType == v1alpha1.ComponentTypeFrontend }

// IsEngine tells whether the component runs an inference engine.
func (c Component) IsEngine() bool {
	switch c.Spec.ComponentType {
	case v1alpha1.ComponentTypeWorker, v1alpha1.ComponentTypePrefill, v1alpha1.ComponentTypeDecode:
		return true
	}
	return false
}

// Is tells whether the component is of a type.
func (c Component) Is(componentType string) bool { return c.Spec.ComponentType == componentType }

// Switched tells whether an annotation of the component is exactly "true".
func (c Component) Switched(annotation string) bool {
	return c.Spec.Annotations[annotation] == names.True
}

// ModelName is the base model the component serves, empty for none.
func (c Component) ModelName() string {
	if c.Spec.ModelRef == nil {
		return ""
	}
	return c.Spec.ModelRef.Name
}

// Service is the component's name in its graph. One that stands alone is called like its object unless it says otherwise.
func (c Component) Service() string {
	if c.Spec.ServiceName == "" {
		return c.Name
	}
	return c.Spec.ServiceName
}

// ObjectLabels are the labels of everything made for the component.
func (c Component) ObjectLabels() map[string]string {
	labels := map[string]string{}
	if c.Graph == "" {
		labels[names.LabelComponent], labels[names.LabelDynamoNamespace] = c.Service(), c.DynamoNamespace()
	}
	maps.Copy(labels, c.Spec.Labels)
	maps.Copy(labels, c.Labels)
	if model := c.ModelName(); model != "" {
		labels[names.LabelBaseModelHash] = names.ModelHash(model)
	}
	return labels
}

// ObjectAnnotations are the annotations of the component's workload and Services.
func (c Component) ObjectAnnotations() map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, c.Spec.Annotations)
	if c.Spec.ExtraPodMetadata != nil {
		maps.Copy(annotations, c.Spec.ExtraPodMetadata.Annotations)
	}
	if model := c.ModelName(); model != "" {
		annotations[names.AnnotationBaseModel] = model
	}
	return annotations
}
