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
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/offline/schema"
	"github.com/dynamo-operator/dynamo-operator/internal/strict"
)

// Document is one object of a file, with the defaults of its definition.
type Document struct {
	// Source is the file it stands in.
	Source string
	Object client.Object

	passage passage
	// faults are what its definition finds wrong with it.
	faults schema.Faults
}

// kindOf is the kind of a document's object.
func kindOf(object client.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }

// problems turns what is wrong with the document into problems.
func (d Document) problems(rule string, errs field.ErrorList) []Problem {
	return d.passage.problems(kindOf(d.Object)+" "+d.Object.GetName(), rule, errs)
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
	at := passage{source: f.Name, item: alone}
	text := bytes.ReplaceAll(f.Content, []byte("\r\n"), []byte("\n")) // which the reader does, and then nobody finds its place again
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		content, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, problems
		}
		at = at.next(text, content)
		if err != nil {
			return documents, append(problems, at.problem(err))
		}
		members, err := strict.Parse(content)
		if err != nil {
			problems = append(problems, at.problem(err))
			continue
		}
		if members == nil {
			continue
		}
		more, errs := f.document(members, at)
		documents, problems = append(documents, more...), append(problems, errs...)
	}
}

// document reads one document, or each item of one that is a list.
func (f File) document(members map[string]any, at passage) ([]Document, []Problem) {
	kind, _ := members["kind"].(string)
	if items, ok := members["items"].([]any); ok && strings.HasSuffix(kind, "List") && at.item == alone {
		return f.items(items, at)
	}
	if foreign(members) {
		return nil, nil // what else people keep in a file with their graph: Secrets, claims, Ingresses
	}
	metadata, _ := members["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	title := strings.TrimSpace(kind + " " + name)
	r := typed(kind, members)
	problems := at.problems(title, ruleFields, r.misfits)
	if r.object == nil {
		return nil, append(problems, at.problems(title, ruleSchema, r.faults.All())...)
	}
	if name == "" && (r.object.GetGenerateName() == "" || slices.Contains(rendered(), kind)) {
		errs := field.ErrorList{field.Required(field.NewPath("metadata", "name"), "the names of everything that is made begin with it")}
		return nil, append(problems, at.problems(title, ruleNames, errs)...)
	}
	d := Document{Source: f.Name, Object: r.object, passage: at, faults: r.faults}
	return []Document{d}, append(problems, d.problems(ruleNames, append(f.place(r.object), named(r.object)...))...)
}

// foreign recognises an object of somebody else's API. One without a kind or version is nobody's and a mistake.
func foreign(members map[string]any) bool {
	kind, _ := members["kind"].(string)
	version, _ := members["apiVersion"].(string)
	gv, err := runtimeschema.ParseGroupVersion(version)
	return err == nil && kind != "" && version != "" && gv.Group != v1alpha1.GroupVersion.Group
}

func (f File) items(items []any, at passage) ([]Document, []Problem) {
	var documents []Document
	var problems []Problem
	for i, item := range items {
		members, ok := item.(map[string]any)
		if !ok {
			path := field.NewPath("items").Index(i)
			problems = append(problems, at.problems("", ruleFields, field.ErrorList{field.TypeInvalid(path, item, "must be an object")})...)
			continue
		}
		of := at
		of.item = i
		more, errs := f.document(members, of)
		documents, problems = append(documents, more...), append(problems, errs...)
	}
	return documents, problems
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
