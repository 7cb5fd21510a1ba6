// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight tells whether a cluster is ready for the operator and for graphs. [Read] gathers facts, [Judge] makes
// findings of them without looking anywhere, and the two kinds of output are made of findings alone.
package preflight

import (
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
)

// Facts are what a cluster showed.
type Facts struct {
	// Server is the version of the API server, such as v1.37.0.
	Server string
	// Namespace is where graphs are to run.
	Namespace string
	// Preset is how the operator is to be installed.
	Preset Preset
	// Installing tells that who asks is going to install it.
	Installing bool
	// Definitions are those of our group that the cluster has.
	Definitions []Definition
	// Expected are the names of all definitions of our group.
	Expected       []string
	StorageClasses []StorageClass
	Nodes          []Node
	// APIs are the optional ones that are served.
	APIs        []apis.API
	CertManager bool
	Webhooks    []Webhook
	// Trial is what became of a graph that was sent for admission only; empty if nothing was sent.
	Trial     Trial
	Rights    []Right
	Operators []Operator
	Leaders   []Lease
	Claims    []Lease
	// Unread says for a check why its facts are missing.
	Unread map[Check]string
	// Now is when the facts were gathered.
	Now time.Time
}

// Definition is a CustomResourceDefinition of our group.
type Definition struct {
	Name string
	// Served tells that objects of our version can be read and written.
	Served bool
	// Same tells that its schema is the one of this program.
	Same bool
	// Release is the Helm release that owns it, namespace/name; empty if none does.
	Release string
}

// StorageClass is one that claims can name.
type StorageClass struct {
	Name    string
	Default bool
}

// Node is one that has GPUs.
type Node struct {
	Name string
	GPUs int64
	// Usable tells that pods can be scheduled there now.
	Usable bool
}

// Webhook is one that objects of our group are sent to.
type Webhook struct {
	Configuration string
	Name          string
	// Service is namespace/name; empty for a webhook with a URL.
	Service string
	// Endpoints are those of the service that are ready.
	Endpoints int
	// Trusted tells that there is a certificate authority.
	Trusted bool
	// Asked tells that it is sent a graph that is made in the namespace.
	Asked bool
	// Required tells that writes fail while it does not answer.
	Required bool
}

// Trial is an attempt to create a graph without storing it.
type Trial struct {
	// Sent tells that there was one, and that it got as far as the webhooks.
	Sent bool
	// Unanswered is the error of a webhook that could not be called.
	Unanswered string
}

// Right is something that the user may or may not do.
type Right struct {
	// Install tells that it is for installing; the others are for running graphs.
	Install bool
	Verb    string
	// Resource with its group, such as deployments.apps.
	Resource string
	// Namespace is empty for what has none.
	Namespace string
	Allowed   bool
}

// Operator is a Deployment of an operator for our group.
type Operator struct {
	Namespace, Name string
	Image           string
	// Restricted is the namespace to which it keeps; empty for one of the whole cluster.
	Restricted string
	// Reference tells that it is not ours.
	Reference bool
	Ready     int32
	// Release is the Helm release that owns it, namespace/name; empty if none does.
	Release string
	// Bundled are further Deployments of a release of the reference, which ours does not have.
	Bundled []string
}

// Preset is one of the ways to install that the charts have values for. The empty one is without any of those.
type Preset string

// The presets of the chart dynamo-platform.
const (
	PresetNone        Preset = ""
	PresetDevelopment Preset = "development"
	PresetProduction  Preset = "production"
	PresetMultiTenant Preset = "multi-tenant"
)

// Presets are all of them.
func Presets() []Preset {
	return []Preset{PresetNone, PresetDevelopment, PresetProduction, PresetMultiTenant}
}

// Lease is one by which operators keep out of each other's way.
type Lease struct {
	Namespace string
	Holder    string
	// Alive tells that the holder has renewed it in time.
	Alive bool
}
