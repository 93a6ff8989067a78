//! Types of fields: the errors of the API server's decoder, which come before all others.
//!
//! Upstream counterpart: `sigs.k8s.io/json`, a copy of Go's `encoding/json`, which reports the first field of the wrong
//! type; unknown fields only give warnings.

use super::{Kind, field::FieldError};
use kyvtest_go_compat::value::Value;

/// The Go type of a field.
enum Shape {
    /// A string, by the name of its type.
    Text(&'static str),
    /// A list of strings, by the name of their type.
    Texts(&'static str),
    /// Strings by key.
    TextMap,
    /// A structure.
    Struct(&'static Struct),
    /// A list of structures.
    Structs(&'static Struct),
}

struct Struct {
    name: &'static str,
    fields: &'static [Field],
}

struct Field {
    name: &'static str,
    /// The embedded structures that contain the field in Go, as its errors show them.
    inside: &'static str,
    shape: Shape,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        inside: "",
        shape,
    }
}

const fn embedded(inside: &'static str, name: &'static str, shape: Shape) -> Field {
    Field { name, inside, shape }
}

const STRING: Shape = Shape::Text("string");
const STRINGS: Shape = Shape::Texts("string");

static REQUIREMENT: Struct = Struct {
    name: "LabelSelectorRequirement",
    fields: &[
        field("key", STRING),
        field("operator", Shape::Text("v1.LabelSelectorOperator")),
        field("values", STRINGS),
    ],
};
static SELECTOR: Struct = Struct {
    name: "LabelSelector",
    fields: &[
        field("matchLabels", Shape::TextMap),
        field("matchExpressions", Shape::Structs(&REQUIREMENT)),
    ],
};
static RULE: Struct = Struct {
    name: "NamedRuleWithOperations",
    fields: &[
        field("resourceNames", STRINGS),
        embedded("RuleWithOperations.", "operations", Shape::Texts("v1.OperationType")),
        embedded("RuleWithOperations.Rule.", "apiGroups", STRINGS),
        embedded("RuleWithOperations.Rule.", "apiVersions", STRINGS),
        embedded("RuleWithOperations.Rule.", "resources", STRINGS),
        embedded("RuleWithOperations.Rule.", "scope", Shape::Text("v1.ScopeType")),
    ],
};
static BLOCK: Struct = Struct {
    name: "MatchResources",
    fields: &[
        field("namespaceSelector", Shape::Struct(&SELECTOR)),
        field("objectSelector", Shape::Struct(&SELECTOR)),
        field("resourceRules", Shape::Structs(&RULE)),
        field("excludeResourceRules", Shape::Structs(&RULE)),
        field("matchPolicy", Shape::Text("v1.MatchPolicyType")),
    ],
};
static PARAM_KIND: Struct = Struct {
    name: "ParamKind",
    fields: &[field("apiVersion", STRING), field("kind", STRING)],
};
static CONDITION: Struct = Struct {
    name: "MatchCondition",
    fields: &[field("name", STRING), field("expression", STRING)],
};
static VARIABLE: Struct = Struct {
    name: "Variable",
    fields: &[field("name", STRING), field("expression", STRING)],
};
static VALIDATION: Struct = Struct {
    name: "Validation",
    fields: &[
        field("expression", STRING),
        field("message", STRING),
        field("reason", Shape::Text("v1.StatusReason")),
        field("messageExpression", STRING),
    ],
};
static ANNOTATION: Struct = Struct {
    name: "AuditAnnotation",
    fields: &[field("key", STRING), field("valueExpression", STRING)],
};
static METADATA: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        field("name", STRING),
        field("generateName", STRING),
        field("namespace", STRING),
        field("labels", Shape::TextMap),
        field("annotations", Shape::TextMap),
        field("finalizers", STRINGS),
    ],
};
static POLICY_SPEC: Struct = Struct {
    name: "ValidatingAdmissionPolicySpec",
    fields: &[
        field("paramKind", Shape::Struct(&PARAM_KIND)),
        field("matchConstraints", Shape::Struct(&BLOCK)),
        field("validations", Shape::Structs(&VALIDATION)),
        field("failurePolicy", Shape::Text("v1.FailurePolicyType")),
        field("auditAnnotations", Shape::Structs(&ANNOTATION)),
        field("matchConditions", Shape::Structs(&CONDITION)),
        field("variables", Shape::Structs(&VARIABLE)),
    ],
};
static POLICY: Struct = Struct {
    name: "ValidatingAdmissionPolicy",
    fields: &[
        field("metadata", Shape::Struct(&METADATA)),
        field("spec", Shape::Struct(&POLICY_SPEC)),
    ],
};
static PARAM_REF: Struct = Struct {
    name: "ParamRef",
    fields: &[
        field("name", STRING),
        field("namespace", STRING),
        field("selector", Shape::Struct(&SELECTOR)),
        field("parameterNotFoundAction", Shape::Text("v1.ParameterNotFoundActionType")),
    ],
};
static BINDING_SPEC: Struct = Struct {
    name: "ValidatingAdmissionPolicyBindingSpec",
    fields: &[
        field("policyName", STRING),
        field("paramRef", Shape::Struct(&PARAM_REF)),
        field("matchResources", Shape::Struct(&BLOCK)),
        field("validationActions", Shape::Texts("v1.ValidationAction")),
    ],
};
static BINDING: Struct = Struct {
    name: "ValidatingAdmissionPolicyBinding",
    fields: &[
        field("metadata", Shape::Struct(&METADATA)),
        field("spec", Shape::Struct(&BINDING_SPEC)),
    ],
};

static APPLY_CONFIGURATION: Struct = Struct {
    name: "ApplyConfiguration",
    fields: &[field("expression", STRING)],
};
static JSON_PATCH: Struct = Struct {
    name: "JSONPatch",
    fields: &[field("expression", STRING)],
};
static MUTATION: Struct = Struct {
    name: "Mutation",
    fields: &[
        field("patchType", Shape::Text("v1.PatchType")),
        field("applyConfiguration", Shape::Struct(&APPLY_CONFIGURATION)),
        field("jsonPatch", Shape::Struct(&JSON_PATCH)),
    ],
};
static MUTATING_POLICY_SPEC: Struct = Struct {
    name: "MutatingAdmissionPolicySpec",
    fields: &[
        field("paramKind", Shape::Struct(&PARAM_KIND)),
        field("matchConstraints", Shape::Struct(&BLOCK)),
        field("variables", Shape::Structs(&VARIABLE)),
        field("mutations", Shape::Structs(&MUTATION)),
        field("failurePolicy", Shape::Text("v1.FailurePolicyType")),
        field("matchConditions", Shape::Structs(&CONDITION)),
        field("reinvocationPolicy", Shape::Text("v1.ReinvocationPolicyType")),
    ],
};
static MUTATING_POLICY: Struct = Struct {
    name: "MutatingAdmissionPolicy",
    fields: &[
        field("metadata", Shape::Struct(&METADATA)),
        field("spec", Shape::Struct(&MUTATING_POLICY_SPEC)),
    ],
};
static MUTATING_BINDING_SPEC: Struct = Struct {
    name: "MutatingAdmissionPolicyBindingSpec",
    fields: &[
        field("policyName", STRING),
        field("paramRef", Shape::Struct(&PARAM_REF)),
        field("matchResources", Shape::Struct(&BLOCK)),
    ],
};
static MUTATING_BINDING: Struct = Struct {
    name: "MutatingAdmissionPolicyBinding",
    fields: &[
        field("metadata", Shape::Struct(&METADATA)),
        field("spec", Shape::Struct(&MUTATING_BINDING_SPEC)),
    ],
};

/// The first field of the wrong type, in source order.
pub(super) fn mismatch(object: Value<'_>, kind: Kind) -> Option<FieldError> {
    let of = match kind {
        Kind::Validating => &POLICY,
        Kind::ValidatingBinding => &BINDING,
        Kind::Mutating => &MUTATING_POLICY,
        Kind::MutatingBinding => &MUTATING_BINDING,
    };
    in_struct(object, of, &Place::default())
}

/// Warnings about unknown fields below `spec`, in source order.
pub(super) fn unknown_fields(object: Value<'_>, kind: Kind) -> Vec<String> {
    let of = match kind {
        Kind::Validating => &POLICY_SPEC,
        Kind::ValidatingBinding => &BINDING_SPEC,
        Kind::Mutating => &MUTATING_POLICY_SPEC,
        Kind::MutatingBinding => &MUTATING_BINDING_SPEC,
    };
    let mut warnings = Vec::new();
    if let Some(spec) = object.get("spec") {
        add_unknown(spec, of, "spec", &mut warnings);
    }
    warnings
}

fn add_unknown(object: Value<'_>, of: &Struct, path: &str, warnings: &mut Vec<String>) {
    for (key, value) in object.as_map().iter().flat_map(|map| map.iter()) {
        let path = format!("{path}.{}", key.text());
        let Some(field) = of.fields.iter().find(|field| field.name == key.text()) else {
            warnings.push(format!("unknown field \"{path}\""));
            continue;
        };
        match field.shape {
            Shape::Struct(of) => add_unknown(value, of, &path, warnings),
            Shape::Structs(of) => {
                let items = value.as_list();
                for (i, item) in items.iter().flat_map(|items| items.iter()).enumerate() {
                    add_unknown(item, of, &format!("{path}[{i}]"), warnings);
                }
            }
            Shape::Text(_) | Shape::Texts(_) | Shape::TextMap => {}
        }
    }
}

/// The path of a value: in Go's notation, without list indices, and in field notation.
#[derive(Clone, Default)]
struct Place {
    go: String,
    path: String,
}

impl Place {
    fn field(&self, field: &Field) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            go: format!("{}{dot}{}{}", self.go, field.inside, field.name),
            path: format!("{}{dot}{}", self.path, field.name),
        }
    }

    fn item(&self, i: usize) -> Self {
        Self {
            go: self.go.clone(),
            path: format!("{}[{i}]", self.path),
        }
    }
}

fn in_struct(object: Value<'_>, of: &Struct, place: &Place) -> Option<FieldError> {
    let map = object.as_map()?;
    map.iter().find_map(|(key, value)| {
        let field = of.fields.iter().find(|field| field.name == key.text())?;
        in_field(value, &field.shape, of.name, &place.field(field))
    })
}

fn in_field(value: Value<'_>, shape: &Shape, owner: &str, place: &Place) -> Option<FieldError> {
    let wrong = |value: Value<'_>, place: &Place, wanted: &str| {
        let word = match value {
            Value::Null => return None,
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
            _ => "number",
        };
        let Place { go, path } = place;
        let text = format!("json: cannot unmarshal {word} into Go struct field {owner}.{go} of type {wanted}");
        Some(FieldError {
            field: path.clone(),
            detail: text.clone(),
            text,
        })
    };
    match (shape, value) {
        (Shape::Text(_), Value::String(_)) => None,
        (Shape::Text(wanted), value) => wrong(value, place, wanted),
        (Shape::Texts(wanted), Value::List(list)) => list
            .iter()
            .enumerate()
            .filter(|(_, item)| item.as_str().is_none())
            .find_map(|(i, item)| wrong(item, &place.item(i), wanted)),
        (Shape::Texts(wanted), value) => wrong(value, place, &format!("[]{wanted}")),
        (Shape::TextMap, Value::Map(map)) => map
            .iter()
            .filter(|(_, value)| value.as_str().is_none())
            .find_map(|(_, value)| wrong(value, place, "string")),
        (Shape::TextMap, value) => wrong(value, place, "map[string]string"),
        (Shape::Struct(of), Value::Map(_)) => in_struct(value, of, place),
        (Shape::Struct(of), value) => wrong(value, place, &format!("v1.{}", of.name)),
        (Shape::Structs(of), Value::List(list)) => list.iter().enumerate().find_map(|(i, item)| {
            let place = place.item(i);
            match item {
                Value::Map(_) => in_struct(item, of, &place),
                item => wrong(item, &place, &format!("v1.{}", of.name)),
            }
        }),
        (Shape::Structs(of), value) => wrong(value, place, &format!("[]v1.{}", of.name)),
    }
}
