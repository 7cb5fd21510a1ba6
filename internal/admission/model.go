// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// modelRules are those about models.
func modelRules() []Rule {
	models := []string{v1alpha1.KindDynamoModel}
	return []Rule{
		{
			Name: "model-name", Kinds: models, Level: Refusal, Places: everywhere, Reference: true, check: on(modelName),
			Says: "A model has a name.",
		},
		{
			Name: "base-model-name", Kinds: models, Level: Refusal, Places: everywhere, Reference: true, check: on(baseModelName),
			Says: "A model names its base model.",
		},
		{
			Name: "lora-source", Kinds: models, Level: Refusal, Places: everywhere, Reference: true, check: on(loraSource),
			Says: "A LoRA has a source.",
		},
		{
			Name: "lora-uri", Kinds: models, Level: Refusal, Places: everywhere, Reference: true, check: on(loraURI),
			Says: "The source of a LoRA begins with `s3://` or `hf://`.",
		},
		{
			Name: "model-type-fixed", Kinds: models, Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(modelType), Says: "`modelType` stays as it is.",
		},
		{
			Name: "base-model-fixed", Kinds: models, Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(baseModel), Says: "`baseModelName` stays as it is. `modelName` and `source.uri` may change.",
		},
	}
}

func modelName(m *v1alpha1.DynamoModel) field.ErrorList {
	if m.Spec.ModelName != "" {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "modelName"), "name the model, as workers know it")}
}

func baseModelName(m *v1alpha1.DynamoModel) field.ErrorList {
	if m.Spec.BaseModelName != "" {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "baseModelName"), "name the base model, as in modelRef.name of the services that serve it")}
}

func loraSource(m *v1alpha1.DynamoModel) field.ErrorList {
	if m.Spec.ModelType != v1alpha1.ModelTypeLoRA || m.Spec.Source != nil {
		return nil
	}
	return field.ErrorList{field.Required(field.NewPath("spec", "source"),
		"say where the weights of the lora are: s3://bucket/path or hf://organisation/repository")}
}

func loraURI(m *v1alpha1.DynamoModel) field.ErrorList {
	if m.Spec.ModelType != v1alpha1.ModelTypeLoRA || m.Spec.Source == nil {
		return nil
	}
	uri := m.Spec.Source.URI
	if strings.HasPrefix(uri, "s3://") || strings.HasPrefix(uri, "hf://") {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "source", "uri"), uri, "must begin with s3:// or hf://")}
}

func modelType(old, m *v1alpha1.DynamoModel) field.ErrorList {
	return fixed(field.NewPath("spec", "modelType"), typeOf(old), typeOf(m), "model")
}

// typeOf is the type of a model, with the default that the schema fills in.
func typeOf(m *v1alpha1.DynamoModel) string {
	if m.Spec.ModelType == "" {
		return v1alpha1.ModelTypeBase
	}
	return m.Spec.ModelType
}

func baseModel(old, m *v1alpha1.DynamoModel) field.ErrorList {
	return fixed(field.NewPath("spec", "baseModelName"), old.Spec.BaseModelName, m.Spec.BaseModelName, "model")
}
