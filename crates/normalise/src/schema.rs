//! The shapes of built-in kinds, for proofs: the fields of an object, and facts about their values.
//!
//! Upstream counterpart: the Go types below `k8s.io/api` with their JSON tags and defaults, as in `table`.

use kyvtest_go_compat::value::Key;

use crate::{
    node::Node,
    table::{self, Omit, TABLE, TypeId},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type {
    id: TypeId,
    role: Role,
}

/// What a struct is, where validation depends on that: of metadata only what names an object must have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Nothing more is known.
    Part,
    /// The metadata of an object.
    OfObject,
    /// The metadata of a template of Pods.
    OfTemplate,
}

/// The Go type of a field, an element or a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// An integer in a range, both ends included.
    Int(i64, i64),
    /// A floating-point number.
    Float,
    /// A quantity, written as a string.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// A point in time as a string, or null.
    Time,
    Struct(Type),
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
    /// Anything.
    Any,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub shape: Shape,
    /// Whether the server writes the field even if it has no value: null, a zero value or an empty struct.
    pub always: bool,
    /// Whether the client must give a value: validation requires one, or the API does not call it optional.
    pub required: bool,
    /// Whether the value may be null.
    pub nullable: bool,
    /// Whether Go's zero value is left out, so that a present value is another one.
    pub nonzero: bool,
    /// The values that validation accepts, of a list those of its elements; empty if it accepts others.
    pub choices: Vec<&'static str>,
    /// The language of a text that validation accepts.
    pub format: Option<Format>,
}

/// A language of texts that the API server checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An RFC 1123 label.
    Label,
    /// An RFC 1123 subdomain.
    Subdomain,
    /// A key of labels.
    Qualified,
    /// The name of an environment variable.
    EnvName,
}

/// Fields that every version of the API server has required, so that stored objects have them as well: the template of a
/// ReplicationController is behind a pointer (`pkg/apis/core/validation`, `ValidatePodTemplateSpecForRC`).
const ALWAYS_REQUIRED: [(&str, &str); 1] = [("core.v1.ReplicationControllerSpec", "template")];

/// Fields that containers and variables must have (`validateContainerCommon`, `validateEphemeralContainers`, `ValidateEnv`).
const REQUIRED: [(&str, &str, ()); 5] = [
    ("core.v1.Container", "name", ()),
    ("core.v1.Container", "image", ()),
    ("core.v1.EphemeralContainer", "name", ()),
    ("core.v1.EphemeralContainer", "image", ()),
    ("core.v1.EnvVar", "name", ()),
];

/// Types whose fields validation checks in some of the places where they occur: a secret that images are pulled with needs no
/// name (`validateImagePullSecrets`), one that holds the password of a volume does; the templates of claims in a StatefulSet are
/// checked on creation only (`ValidateStatefulSetSpec`).
const PARTLY_CHECKED: [&str; 4] = [
    "core.v1.LocalObjectReference",
    "core.v1.PersistentVolumeClaimSpec",
    "core.v1.SecretReference",
    "core.v1.TypedLocalObjectReference",
];

/// Bounds of single fields that validation checks in code of its own, on creation and on update.
const BOUNDS: [(&str, &str, (i64, i64)); 2] = [
    // `validateContainerPorts`.
    ("core.v1.ContainerPort", "hostPort", (0, 65_535)),
    ("core.v1.ContainerPort", "containerPort", (1, 65_535)),
];

/// Values of single fields that validation accepts, in code of its own, on creation and on update.
const CHOICES: [(&str, &str, &[&str]); 14] = [
    // `ValidateService`.
    (
        "core.v1.ServiceSpec",
        "type",
        &["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"],
    ),
    ("core.v1.ServiceSpec", "sessionAffinity", &["ClientIP", "None"]),
    ("core.v1.ServiceSpec", "externalTrafficPolicy", &["Cluster", "Local"]),
    ("core.v1.ServiceSpec", "internalTrafficPolicy", &["Cluster", "Local"]),
    // `validateContainerPorts`.
    ("core.v1.ContainerPort", "protocol", &["SCTP", "TCP", "UDP"]),
    // `ValidateDeploymentStrategy`, `ValidateDaemonSetUpdateStrategy`, `ValidateStatefulSetSpec`.
    ("apps.v1.DeploymentStrategy", "type", &["Recreate", "RollingUpdate"]),
    (
        "apps.v1.DaemonSetUpdateStrategy",
        "type",
        &["OnDelete", "RollingUpdate"],
    ),
    (
        "apps.v1.StatefulSetUpdateStrategy",
        "type",
        &["OnDelete", "RollingUpdate"],
    ),
    (
        "apps.v1.StatefulSetSpec",
        "podManagementPolicy",
        &["OrderedReady", "Parallel"],
    ),
    // `validateSeccompProfileField`, `validateAppArmorProfileField`.
    ("core.v1.SeccompProfile", "type", PROFILES),
    ("core.v1.AppArmorProfile", "type", PROFILES),
    // `ValidateNetworkPolicySpec`, `validateHTTPIngressPath`.
    ("networking.v1.NetworkPolicySpec", "policyTypes", &["Egress", "Ingress"]),
    (
        "networking.v1.HTTPIngressPath",
        "pathType",
        &["Exact", "ImplementationSpecific", "Prefix"],
    ),
    // `ValidateRoleBindingSubject`.
    ("rbac.v1.Subject", "kind", &["Group", "ServiceAccount", "User"]),
];

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Formats of single fields that validation checks in code of its own, on creation and on update.
const FORMATS: [(&str, &str, Format); 4] = [
    // `validateContainerCommon`, `ValidateEnv`, `ValidateTolerations`.
    ("core.v1.Container", "name", Format::Label),
    ("core.v1.EphemeralContainer", "name", Format::Label),
    ("core.v1.EnvVar", "name", Format::EnvName),
    ("core.v1.Toleration", "key", Format::Qualified),
];

fn known<T: Copy>(table: &[(&str, &str, T)], owner: &str, field: &str) -> Option<T> {
    let found = table.iter().find(|(own, name, _)| *own == owner && *name == field);
    found.map(|(.., value)| *value)
}

/// Returns the type of a kind.
pub fn of_kind(api_version: &str, kind: &str) -> Option<Type> {
    TABLE.kind(api_version, kind).map(|served| Type::part(served.type_id))
}

impl Type {
    fn part(id: TypeId) -> Self {
        Self { id, role: Role::Part }
    }

    /// The same type in another role.
    #[must_use]
    pub fn with_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    pub fn role(self) -> Role {
        self.role
    }

    /// The role of the type's metadata. A claim may also be the template of one, which is not validated.
    pub fn role_of_metadata(self) -> Role {
        let is_object = TABLE.get(self.id).field(Key::new("apiVersion")).is_some();
        match self.name() {
            "core.v1.PodTemplateSpec" => Role::OfTemplate,
            "core.v1.PersistentVolumeClaim" => Role::Part,
            _ if is_object => Role::OfObject,
            _ => Role::Part,
        }
    }

    /// The type's name, such as `core.v1.Container`.
    pub fn name(self) -> &'static str {
        TABLE.get(self.id).name
    }

    /// Returns a field; `None` if the type has no field of that name. An object that was stored earlier may have values
    /// that validation would reject today: for those only `decoded` facts hold.
    pub fn field(self, name: &str, decoded: bool) -> Option<Field> {
        let field = TABLE.get(self.id).field(Key::new(name))?;
        let checks = if decoded || PARTLY_CHECKED.contains(&self.name()) {
            &[][..]
        } else {
            field.checks.as_slice()
        };
        let own_bounds = known(&BOUNDS, self.name(), name).filter(|_| !decoded);
        let bounds = checks.iter().find_map(|check| check.bounds()).or(own_bounds);
        let shape = match (shape(&field.shape), bounds) {
            (Shape::Int(least, most), Some((low, high))) => Shape::Int(low.max(least), high.min(most)),
            (shape, _) => shape,
        };
        let default = field.default.as_ref().filter(|_| !field.disabled);
        let own_requirement = !decoded && known(&REQUIRED, self.name(), name).is_some();
        let required = own_requirement
            || checks.iter().any(|check| check.is_requirement())
            || ALWAYS_REQUIRED.contains(&(self.name(), name));
        let nil = field.pointer || matches!(shape, Shape::List(_) | Shape::Map(_));
        let mut choices: Vec<&'static str> = checks.iter().filter_map(|check| check.choices()).flatten().collect();
        if !decoded && let Some(more) = known(&CHOICES, self.name(), name) {
            choices.extend(more);
        }
        let format = checks.iter().find_map(|check| check.format());
        let own_format = known(&FORMATS, self.name(), name).filter(|_| !decoded);
        // A choice that clients may leave out is made by the server, such as the pull policy of images.
        let filled = default.is_some() || field.omit == Omit::Empty && !choices.is_empty();
        // A zero value behind a pointer is a value.
        let drops_zero = field.omit == Omit::Empty || default.is_some_and(|default| !Node::is_empty(default));
        Some(Field {
            // An empty default is dropped again when the object is written.
            always: field.always_written()
                || default.is_some_and(|default| field.pointer || !Node::is_empty(default))
                || required,
            required: required && !filled || field.omit == Omit::Never && !nil,
            nullable: field.omit == Omit::Never && nil && default.is_none() && !required,
            nonzero: !field.pointer && (drops_zero || required),
            choices,
            format: format.or(own_format),
            shape,
        })
    }

    /// The names of all fields.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        TABLE.get(self.id).fields.iter().map(|field| field.name)
    }
}

fn shape(shape: &table::Shape) -> Shape {
    match shape {
        table::Shape::Text | table::Shape::Bytes => Shape::Text,
        table::Shape::Bool => Shape::Bool,
        table::Shape::Int32 => Shape::Int(i64::from(i32::MIN), i64::from(i32::MAX)),
        table::Shape::Int64 => Shape::Int(i64::MIN, i64::MAX),
        table::Shape::Float => Shape::Float,
        table::Shape::Quantity => Shape::Quantity,
        table::Shape::IntOrString => Shape::IntOrString,
        table::Shape::Time | table::Shape::MicroTime => Shape::Time,
        table::Shape::Struct(id) => Shape::Struct(Type::part(*id)),
        table::Shape::List(item) => Shape::List(Box::new(self::shape(item))),
        table::Shape::Map(item) => Shape::Map(Box::new(self::shape(item))),
        table::Shape::Resources => Shape::Map(Box::new(Shape::Quantity)),
        table::Shape::Raw
        | table::Shape::PropsOrBool(_)
        | table::Shape::PropsOrArray(_)
        | table::Shape::PropsOrStrings(_) => Shape::Any,
    }
}
