// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Document is one object of a file.
type Document struct {
	// Source is the file it stands in.
	Source string
	Object client.Object
}

// kindOf is the kind of a document's object.
func kindOf(object client.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }

// problems turns what is wrong with the document into problems.
func (d Document) problems(errs field.ErrorList) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, Problem{Source: d.Source, Object: kindOf(d.Object) + " " + d.Object.GetName(), Err: err})
	}
	return problems
}

// Problem is one thing that the user has to change.
type Problem struct {
	// Source is the file, Object the kind and name of the object in it. Object is empty where there is none to name.
	Source, Object string
	// Err names the field.
	Err error
}

// Error is one line: where, which object, which field, what is wrong.
func (p Problem) Error() string {
	parts := []string{p.Source}
	if p.Object != "" {
		parts = append(parts, p.Object)
	}
	return strings.Join(append(parts, strings.Join(strings.Fields(p.Err.Error()), " ")), ": ")
}

// File is what documents are read from.
type File struct {
	Name    string
	Content []byte
	// Namespace is that of objects that name none. An object that names another one is refused, as kubectl does. Empty
	// means "default" and no opinion.
	Namespace string
}

// Read returns the objects of a file in their order. Documents are separated by "---", may be empty, and may be lists.
func Read(f File) ([]Document, []Problem) {
	var documents []Document
	var problems []Problem
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(f.Content)))
	for {
		content, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, problems
		}
		if err != nil {
			return documents, append(problems, Problem{Source: f.Name, Err: err})
		}
		members, err := parse(content)
		if err != nil {
			problems = append(problems, Problem{Source: f.Name, Err: err})
			continue
		}
		if members == nil {
			continue
		}
		more, errs := f.document(members)
		documents, problems = append(documents, more...), append(problems, errs...)
	}
}

// document reads one document, or each item of one that is a list.
func (f File) document(members map[string]any) ([]Document, []Problem) {
	kind, _ := members["kind"].(string)
	if items, ok := members["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		return f.items(items)
	}
	if foreign(members) {
		return nil, nil // what else people keep in a file with their graph: Secrets, claims, Ingresses
	}
	metadata, _ := members["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	object, errs := typed(kind, members)
	if len(errs) == 0 && name == "" {
		errs = field.ErrorList{field.Required(field.NewPath("metadata", "name"), "the names of everything that is made begin with it")}
	}
	if len(errs) > 0 {
		return nil, f.problems(strings.TrimSpace(kind+" "+name), errs)
	}
	d := Document{Source: f.Name, Object: object}
	return []Document{d}, d.problems(append(f.place(object), named(object)...))
}

// foreign recognises an object of somebody else's API. One without a kind or version is nobody's and a mistake.
func foreign(members map[string]any) bool {
	kind, _ := members["kind"].(string)
	version, _ := members["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(version)
	return err == nil && kind != "" && version != "" && gv.Group != v1alpha1.GroupVersion.Group
}

func (f File) items(items []any) ([]Document, []Problem) {
	var documents []Document
	var problems []Problem
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			at := field.NewPath("items").Index(i)
			problems = append(problems, f.problems("", field.ErrorList{field.TypeInvalid(at, item, "must be an object")})...)
			continue
		}
		more, errs := f.document(members)
		documents, problems = append(documents, more...), append(problems, errs...)
	}
	return documents, problems
}

func (f File) problems(object string, errs field.ErrorList) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, Problem{Source: f.Name, Object: object, Err: err})
	}
	return problems
}

// typed decodes a document as the kind that it says it is.
func typed(kind string, members map[string]any) (client.Object, field.ErrorList) {
	kinds := []string{v1alpha1.KindDynamoGraphDeployment, v1alpha1.KindDynamoComponentDeployment, v1alpha1.KindDynamoModel}
	if !slices.Contains(kinds, kind) {
		return nil, field.ErrorList{field.NotSupported(field.NewPath("kind"), kind, kinds)}
	}
	if version, _ := members["apiVersion"].(string); version != v1alpha1.GroupVersion.String() {
		return nil, field.ErrorList{field.NotSupported(field.NewPath("apiVersion"), version, []string{v1alpha1.GroupVersion.String()})}
	}
	switch kind {
	case v1alpha1.KindDynamoGraphDeployment:
		graph, errs := decode[v1alpha1.DynamoGraphDeployment](members)
		return graph, errs
	case v1alpha1.KindDynamoComponentDeployment:
		component, errs := decode[v1alpha1.DynamoComponentDeployment](members)
		return component, errs
	}
	model, errs := decode[v1alpha1.DynamoModel](members)
	return model, errs
}

// place gives an object its namespace.
func (f File) place(object client.Object) field.ErrorList {
	at := field.NewPath("metadata", "namespace")
	own := object.GetNamespace()
	switch {
	case own == "" && f.Namespace == "":
		object.SetNamespace(metav1.NamespaceDefault)
	case own == "":
		object.SetNamespace(f.Namespace)
	case f.Namespace != "" && own != f.Namespace:
		return field.ErrorList{field.Invalid(at, own, fmt.Sprintf("differs from --namespace %s", f.Namespace))}
	}
	return nil
}

// named checks the object's own name and namespace, which the API server would do before the operator sees it.
func named(object client.Object) field.ErrorList {
	at := field.NewPath("metadata")
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(object.GetName()) {
		errs = append(errs, field.Invalid(at.Child("name"), object.GetName(), problem))
	}
	for _, problem := range validation.IsDNS1123Label(object.GetNamespace()) {
		errs = append(errs, field.Invalid(at.Child("namespace"), object.GetNamespace(), problem))
	}
	return errs
}
