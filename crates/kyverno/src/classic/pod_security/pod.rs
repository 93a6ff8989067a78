//! A Pod, or the template of one, as Go's decoder reads it into the API types.
//!
//! Upstream counterpart: `getSpec` in `pkg/engine/handlers/validation/validate_pss.go` over `k8s.io/api` 0.36 and
//! `encoding/json` of Go 1.26: keys match regardless of case, unknown ones are dropped, and the first value of a wrong
//! type is an error. `types.txt` lists the types: a line per type, below it a line per field with name, type and the
//! embedded type that it comes from. `@` is a structure, `[` a list, `{` a map, `s`, `b`, `i` a string, boolean and
//! number, each with its Go name, `!` a type with its own decoder. Known deviation: times and managed fields are not
//! decoded.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use kyvtest_go_compat::{
    text::{float, quantity::Quantity},
    value::Data,
};

/// The metadata and the specification of a Pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pod {
    pub metadata: Data,
    /// The specification.
    pub spec: Data,
}

impl Pod {
    /// Reads the Pod that a resource is or makes.
    ///
    /// # Errors
    /// Where the resource makes no Pods, or something in it has the wrong type, in Go's words.
    pub(crate) fn read(kind: &str, resource: &Data) -> Result<Self, String> {
        let (root, metadata, spec): (&str, &[&str], &[&str]) = match kind {
            "Pod" => ("v1.Pod", &["metadata"], &["spec"]),
            "DaemonSet" | "Deployment" | "Job" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => (
                "v1.Deployment",
                &["spec", "template", "metadata"],
                &["spec", "template", "spec"],
            ),
            // The metadata is that of the Job, as upstream.
            "CronJob" => (
                "v1.CronJob",
                &["spec", "jobTemplate", "metadata"],
                &["spec", "jobTemplate", "spec", "template", "spec"],
            ),
            _ => return Err("could not find correct resource type".to_owned()),
        };
        let mut decoder = Decoder::default();
        let decoded = decoder.structure(resource, root);
        if let Some(error) = decoder.error {
            return Err(error);
        }
        let part = |path: &[&str]| decoded.at(path).cloned().unwrap_or_default();
        Ok(Self {
            metadata: part(metadata),
            spec: part(spec),
        })
    }

    /// All containers with their places: those that start first, the others, those for debugging.
    pub(super) fn containers(&self) -> impl Iterator<Item = (String, &Data)> {
        CONTAINERS.iter().flat_map(|list| {
            let containers = self.spec.get(list).and_then(Data::as_list).unwrap_or_default();
            let place = move |(i, container)| (format!("spec.{list}[{i}]"), container);
            containers.iter().enumerate().map(place)
        })
    }

    /// The annotations in order.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let annotations = self.metadata.get("annotations").and_then(Data::as_map);
        annotations
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_ref(), value.as_str().unwrap_or_default()))
    }

    /// Whether `spec.os.name` is Windows.
    pub(super) fn is_windows(&self) -> bool {
        self.spec.at(&["os", "name"]).and_then(Data::as_str) == Some("windows")
    }
}

/// The lists of containers, in the order in which they are visited.
pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A field of a type: its Go type and the embedded types that it comes from.
#[derive(Debug, Clone, Copy)]
struct Field {
    name: &'static str,
    kind: &'static str,
    embedded: &'static str,
}

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let mut types: HashMap<&str, Vec<Field>> = HashMap::new();
    let mut current = "";
    for line in include_str!("types.txt").lines() {
        let Some(field) = line.strip_prefix(' ') else {
            current = line;
            continue;
        };
        let mut words = field.split(' ');
        let mut word = || words.next().unwrap_or_default();
        types.entry(current).or_default().push(Field {
            name: word(),
            kind: word(),
            embedded: word(),
        });
    }
    types
});

#[derive(Default)]
struct Decoder {
    /// The fields on the way.
    path: Vec<String>,
    /// The type whose field is read.
    owner: &'static str,
    error: Option<String>,
}

impl Decoder {
    fn structure(&mut self, value: &Data, name: &'static str) -> Data {
        let Data::Map(entries) = value else {
            self.wrong(value, name);
            return Data::Null;
        };
        let fields = TYPES.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut decoded: BTreeMap<Arc<str>, Data> = BTreeMap::new();
        for (key, value) in entries.iter() {
            let exact = fields.iter().find(|field| field.name == key.as_ref());
            let folded = || fields.iter().find(|field| field.name.eq_ignore_ascii_case(key));
            let Some(field) = exact.or_else(folded) else { continue };
            let owner = std::mem::replace(&mut self.owner, name);
            self.path.push(format!("{}{}", field.embedded, field.name));
            let value = self.value(value, field.kind);
            self.path.pop();
            self.owner = owner;
            if value.is_null() {
                decoded.remove(field.name);
            } else {
                decoded.insert(field.name.into(), value);
            }
        }
        Data::Map(Arc::new(decoded))
    }

    fn value(&mut self, value: &Data, kind: &'static str) -> Data {
        let Some(shape) = shape(kind) else { return Data::Null };
        if value.is_null() {
            return Data::Null;
        }
        let (sign, rest) = shape;
        match (sign, value) {
            ('@', Data::Map(_)) => self.structure(value, rest),
            ('[', Data::List(items)) => items.iter().map(|item| self.value(item, rest)).collect(),
            ('{', Data::Map(entries)) => {
                let decode = |(key, item): (&Arc<str>, &Data)| (Arc::clone(key), self.value(item, rest));
                entries.iter().map(decode).collect()
            }
            ('s', Data::String(_)) | ('b', Data::Bool(_)) => value.clone(),
            ('i', Data::Int(_) | Data::Uint(_) | Data::Double(_)) => self.number(value, rest),
            ('!', _) => self.custom(value, rest),
            _ => {
                self.wrong(value, &type_name(kind));
                Data::Null
            }
        }
    }

    fn number(&mut self, value: &Data, kind: &str) -> Data {
        let whole = match value {
            Data::Int(value) => Some(*value),
            Data::Double(value) if value.trunc() == *value && value.abs() < 1e15 => Some(float::truncate(*value)),
            _ => None,
        };
        let fits = |value: &i64| match kind {
            "int32" => i32::try_from(*value).is_ok(),
            "uint8" => u8::try_from(*value).is_ok(),
            _ => true,
        };
        match whole.filter(fits) {
            Some(value) => Data::Int(value),
            None => {
                let text = format!("number {}", json_number(value));
                self.report(&text, kind);
                Data::Null
            }
        }
    }

    /// Types that decode themselves.
    fn custom(&mut self, value: &Data, kind: &str) -> Data {
        match kind {
            "resource.Quantity" => {
                let text = match value {
                    Data::String(text) => text.to_string(),
                    Data::Int(_) | Data::Uint(_) | Data::Double(_) => json_number(value),
                    _ => value.to_json(),
                };
                // An empty text is nothing.
                if !text.is_empty()
                    && let Err(error) = Quantity::parse(&text)
                    && self.error.is_none()
                {
                    self.error = Some(error.to_string());
                }
                value.clone()
            }
            "intstr.IntOrString" => match value {
                Data::String(_) => value.clone(),
                Data::Int(_) | Data::Uint(_) | Data::Double(_) => self.number(value, "int32"),
                _ => {
                    self.wrong(value, "int32");
                    Data::Null
                }
            },
            _ => value.clone(),
        }
    }

    fn wrong(&mut self, value: &Data, expected: &str) {
        let found = match value {
            Data::Null => return,
            Data::Bool(_) => "bool",
            Data::Int(_) | Data::Uint(_) | Data::Double(_) => "number",
            Data::String(_) => "string",
            Data::List(_) => "array",
            Data::Map(_) => "object",
        };
        self.report(found, expected);
    }

    fn report(&mut self, found: &str, expected: &str) {
        if self.error.is_some() {
            return;
        }
        let owner = self.owner.rsplit('.').next().unwrap_or_default();
        let path = self.path.join(".");
        self.error = Some(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}"
        ));
    }
}

/// The sign of a type and what follows, its own name left out.
fn shape(kind: &'static str) -> Option<(char, &'static str)> {
    let bare = kind.rsplit(')').next()?;
    let mut chars = bare.chars();
    Some((chars.next()?, chars.as_str()))
}

/// A type as Go prints it.
fn type_name(kind: &str) -> String {
    if let Some((name, _)) = kind.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        return name.to_owned();
    }
    let mut chars = kind.chars();
    match chars.next() {
        Some('[') => format!("[]{}", type_name(chars.as_str())),
        Some('{') => format!("map[string]{}", type_name(chars.as_str())),
        _ => chars.as_str().to_owned(),
    }
}

/// A number as JSON writes it.
fn json_number(value: &Data) -> String {
    match value {
        Data::Double(value) => float::json(*value).unwrap_or_default(),
        value => value.to_go(),
    }
}
