// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// unsound returns what every API server would refuse of a pod template. It would do so only when accounts, Services and other
// workloads of the graph are there already, and with a path that no user wrote. What only some servers refuse is left to them.
func unsound(t corev1.PodTemplateSpec, c input.Component) field.ErrorList {
	errs := unsoundMetadata(c)
	volumes, more := unsoundVolumes(t.Spec.Volumes, c)
	errs = append(errs, more...)
	named := map[string]*field.Path{}
	for i, container := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
		at := containerPath(c, t.Spec, i)
		if other := named[container.Name]; other != nil { // ours come last
			errs = append(errs, field.Invalid(other.Child("name"), container.Name, "another container of the pod has this name: choose another"))
		}
		named[container.Name] = at
		for _, problem := range validation.IsDNS1123Label(container.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), container.Name, problem))
		}
		if container.Image == "" && at.String() != mainPath(c).String() { // that of the component is asked for with its own words
			errs = append(errs, field.Required(at.Child("image"), "name the image that this container runs"))
		}
		errs = append(errs, unsoundEnv(container.Env, c, at)...)
		errs = append(errs, unsoundMounts(container.VolumeMounts, volumes, c, at)...)
		if i >= len(t.Spec.InitContainers) {
			errs = append(errs, unsoundProbes(container, c, at)...)
		}
		errs = append(errs, unsoundAmounts(container.Resources, amountPaths(c, at, container.Name))...)
	}
	return errs
}

// containerPath is where a user wrote the container at this place among all of a pod's.
func containerPath(c input.Component, spec corev1.PodSpec, i int) *field.Path {
	at := c.Path.Child("extraPodSpec")
	if i < len(spec.InitContainers) {
		return at.Child("initContainers").Index(i)
	}
	i -= len(spec.InitContainers)
	if own := userPodSpec(c); own != nil && i < len(own.Containers) {
		return at.Child("containers").Index(i)
	}
	return mainPath(c)
}

func mainPath(c input.Component) *field.Path { return c.Path.Child("extraPodSpec", "mainContainer") }

// amountPaths tells where a user wrote how much of something a container has, in the list of limits or of requests.
func amountPaths(c input.Component, container *field.Path, name string) func(list string, of corev1.ResourceName) *field.Path {
	return func(list string, of corev1.ResourceName) *field.Path {
		item, at := ownAmounts(c, list), c.Path.Child("resources", list)
		switch {
		case name != names.MainContainer || item == nil:
		case item.Custom[string(of)] != "":
			return at.Child("custom").Key(string(of))
		case of == corev1.ResourceCPU && item.CPU != "":
			return at.Child("cpu")
		case of == corev1.ResourceMemory && item.Memory != "":
			return at.Child("memory")
		case item.GPU != "" && gpuName(item) == of:
			return at.Child("gpu")
		}
		return container.Child("resources", list).Key(string(of))
	}
}

func ownAmounts(c input.Component, list string) *v1alpha1.ResourceItem {
	switch own := c.Spec.Resources; {
	case own == nil:
		return nil
	case list == limits:
		return own.Limits
	default:
		return own.Requests
	}
}

// The lists of amounts.
const limits, requests = "limits", "requests"

// unsoundMetadata judges what a user wrote of it; ours is derived from names, which are judged before.
func unsoundMetadata(c input.Component) field.ErrorList {
	labels := maps.Clone(c.Spec.Labels)
	for _, ours := range []string{names.LabelComponent, names.LabelDynamoNamespace, names.LabelGraph} {
		delete(labels, ours)
	}
	errs := metavalidation.ValidateLabels(labels, c.Path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(c.Spec.Annotations, c.Path.Child("annotations"))...)
	if m := c.Spec.ExtraPodMetadata; m != nil {
		at := c.Path.Child("extraPodMetadata")
		errs = append(errs, metavalidation.ValidateLabels(m.Labels, at.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(m.Annotations, at.Child("annotations"))...)
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) }) // maps have no order
	return errs
}

// unsoundVolumes also returns the names of those that are there.
func unsoundVolumes(volumes []corev1.Volume, c input.Component) (map[string]bool, field.ErrorList) {
	var errs field.ErrorList
	named := map[string]bool{}
	for _, v := range volumes {
		at := func() *field.Path {
			if isClaim(c, v.Name) {
				return c.Path.Child("volumeMounts")
			}
			return c.Path.Child("extraPodSpec", "volumes").Key(v.Name)
		}
		if named[v.Name] {
			errs = append(errs, field.Invalid(at(), v.Name, "the pod has another volume of this name: mount the claim under another, or remove one of them"))
		}
		named[v.Name] = true
		for _, problem := range validation.IsDNS1123Label(v.Name) {
			errs = append(errs, field.Invalid(at(), v.Name, "is the name of a volume: "+problem))
		}
	}
	return named, errs
}

func isClaim(c input.Component, volume string) bool {
	for _, v := range c.Spec.VolumeMounts {
		if claimVolume(v.Name) == volume {
			return true
		}
	}
	return false
}

func unsoundEnv(env []corev1.EnvVar, c input.Component, container *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, v := range env {
		at := func() *field.Path {
			if slices.ContainsFunc(c.Spec.Envs, func(own corev1.EnvVar) bool { return own.Name == v.Name }) {
				return c.Path.Child("envs").Key(v.Name)
			}
			return container.Child("env").Key(v.Name)
		}
		for _, problem := range validation.IsRelaxedEnvVarName(v.Name) {
			errs = append(errs, field.Invalid(at(), v.Name, problem))
		}
		if v.Value != "" && v.ValueFrom != nil {
			errs = append(errs, field.Invalid(at(), v.Value, "has a value and a valueFrom: keep one of them"))
		}
	}
	return errs
}

func unsoundMounts(mounts []corev1.VolumeMount, volumes map[string]bool, c input.Component, container *field.Path) field.ErrorList {
	var errs field.ErrorList
	mounted := map[string]string{}
	for _, m := range mounts {
		at := func() *field.Path {
			if isClaim(c, m.Name) {
				return c.Path.Child("volumeMounts")
			}
			return container.Child("volumeMounts").Key(m.Name)
		}
		switch other, taken := mounted[m.MountPath]; {
		case m.MountPath == "":
			errs = append(errs, field.Required(at().Child("mountPath"), "say where to mount the volume"))
		case taken:
			errs = append(errs, field.Invalid(at(), m.MountPath,
				fmt.Sprintf("volumes %q and %q cannot both be mounted here: give one of them another path", other, m.Name)))
		case strings.Contains(m.MountPath, ":"):
			errs = append(errs, field.Invalid(at(), m.MountPath, "must not contain ':'"))
		}
		if !volumes[m.Name] {
			errs = append(errs, field.Invalid(at(), m.Name, "the pod has no volume of this name: add it to extraPodSpec.volumes"))
		}
		mounted[m.MountPath] = m.Name
	}
	return errs
}

func unsoundProbes(container corev1.Container, c input.Component, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	isMain := container.Name == names.MainContainer
	for _, probe := range []struct {
		name string
		own  bool // the component has a field of its own for it
		*corev1.Probe
	}{
		{"livenessProbe", isMain && c.Spec.LivenessProbe != nil, container.LivenessProbe},
		{"readinessProbe", isMain && c.Spec.ReadinessProbe != nil, container.ReadinessProbe},
		{"startupProbe", false, container.StartupProbe},
	} {
		if probe.Probe == nil {
			continue
		}
		if n := handlers(probe.ProbeHandler); n != 1 {
			path := at.Child(probe.name)
			if probe.own {
				path = c.Path.Child(probe.name)
			}
			errs = append(errs, field.Invalid(path, n, "a probe has exactly one of exec, httpGet, tcpSocket and grpc"))
		}
	}
	return errs
}

func handlers(h corev1.ProbeHandler) int {
	n := 0
	for _, is := range []bool{h.Exec != nil, h.HTTPGet != nil, h.TCPSocket != nil, h.GRPC != nil} {
		if is {
			n++
		}
	}
	return n
}

func unsoundAmounts(r corev1.ResourceRequirements, at func(string, corev1.ResourceName) *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name    string
		amounts corev1.ResourceList
	}{{limits, r.Limits}, {requests, r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			amount, path := list.amounts[name], func() *field.Path { return at(list.name, name) }
			errs = append(errs, unsoundResource(name, path)...)
			switch {
			case amount.Sign() < 0:
				errs = append(errs, field.Invalid(path(), amount.String(), "must not be negative"))
			case isDevice(name) && amount.MilliValue()%1000 != 0:
				errs = append(errs, field.Invalid(path(), amount.String(), "devices cannot be shared out: must be a whole number"))
			case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
				errs = append(errs, unsoundPages(r, name, amount, path())...)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		asked := r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case isWhole(name) && (!limited || limit.Cmp(asked) != 0):
			errs = append(errs, field.Invalid(at(requests, name), asked.String(), "a request for this must equal its limit: set the limit alone"))
		case limited && asked.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at(requests, name), asked.String(), "must not be more than the limit of "+limit.String()))
		}
	}
	return errs
}

// unsoundPages judges an amount of huge pages, of whose size there are whole ones, beside memory of the ordinary kind.
func unsoundPages(r corev1.ResourceRequirements, name corev1.ResourceName, amount resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Value() <= 0 || amount.Value() <= 0 || amount.Value()%size.Value() != 0 {
		errs = append(errs, field.Invalid(at, amount.String(), "must be a multiple of the size that "+string(name)+" names"))
	}
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for _, ordinary := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if _, there := list[ordinary]; there {
				return errs
			}
		}
	}
	return append(errs, field.Forbidden(at, "huge pages come only with cpu or memory: set one of them, too"))
}

// isDevice tells whether something can only be had whole, which is what plugins of nodes offer.
func isDevice(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isWhole tells whether nobody may have more of something than was reserved.
func isWhole(name corev1.ResourceName) bool {
	return isDevice(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func unsoundResource(name corev1.ResourceName, at func() *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(at(), name, problem))
	}
	isPlain := !strings.Contains(string(name), "/")
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
	default:
		if isPlain && len(errs) == 0 && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			errs = append(errs, field.Invalid(at(), name, "is no resource of Kubernetes: name it with its domain, such as example.com/"+string(name)))
		}
	}
	return errs
}
