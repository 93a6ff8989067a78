//! What is known about the type of a value: from the schema of a kind, or from how an expression makes the value.
//!
//! No upstream counterpart. Facts about fields are those of `kyvtest_normalise::schema`; names and labels are as the API
//! server validates them.

use std::sync::LazyLock;

use kyvtest_normalise::schema;

/// A type, as far as it is known. Values of custom resources are [`Type::Any`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    Null,
    Bool,
    Int,
    /// An integer or a floating-point number.
    Number,
    Text(Text),
    IntOrText,
    List {
        item: Box<Type>,
        nonempty: bool,
    },
    /// A map with free keys.
    Map(Box<Type>),
    /// An object of one of these struct types.
    Object(Vec<Struct>),
    /// An object of an unknown kind.
    Resource,
    /// A list of such objects, as the API server answers.
    ResourceList,
    /// What a registry knows of an image.
    ImageData,
    /// The admission request.
    Request,
    /// A CEL duration where JMESPath has the text of one.
    Duration,
    /// A CEL timestamp where JMESPath has the text of one.
    Timestamp,
    /// A map of texts to which `merge` adds these constant entries; the expression is the map without their keys.
    Merged(Vec<(String, Option<String>)>),
    /// A value of which only the truth is known: the result of `&&` on other types than booleans.
    Truth,
}

/// What is known about a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text {
    /// It has at least one character.
    pub(crate) nonempty: bool,
    /// It has neither `*` nor `?`.
    pub(crate) plain: bool,
    /// It is a quantity in its canonical form.
    pub(crate) quantity: bool,
    /// It is one of these, if there are any.
    pub(crate) choices: Vec<&'static str>,
}

/// When an object is looked at, which decides what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Seen {
    /// Behind validation.
    #[default]
    Validated,
    /// By a mutating webhook, before validation: another webhook may have left a container without an image. A Pod without any
    /// container never gets through, so that their list is there.
    Unvalidated,
    /// Stored earlier, perhaps by an older version of the API server.
    Stored,
}

impl Seen {
    /// Whether Pods have containers.
    pub(crate) fn has_containers(self) -> bool {
        self != Self::Stored
    }
}

/// A struct type of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Struct {
    of: schema::Type,
    seen: Seen,
    /// Whether it is an object, whose API version and kind are those of the request.
    is_object: bool,
}

/// A field of a map.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) ty: Type,
    /// The field is always there, also in an object as people write it.
    pub(crate) required: bool,
    /// The field is always there in an object as the API server shows it.
    pub(crate) always: bool,
    /// The field may be null.
    pub(crate) nullable: bool,
}

static METADATA: LazyLock<Option<schema::Type>> = LazyLock::new(|| {
    let config_map = schema::of_kind("v1", "ConfigMap")?;
    match config_map.field("metadata", false)?.shape {
        schema::Shape::Struct(found) => Some(found),
        _ => None,
    }
});

impl Type {
    pub(crate) fn text() -> Self {
        Self::Text(Text::default())
    }

    /// A text without wildcards that is not empty: a name.
    pub(crate) fn name() -> Self {
        Self::Text(Text {
            nonempty: true,
            plain: true,
            ..Text::default()
        })
    }

    pub(crate) fn list(item: Self) -> Self {
        let item = Box::new(item);
        Self::List { item, nonempty: false }
    }

    /// The objects of some kinds, each with its API version.
    pub(crate) fn of_kinds(kinds: &[(String, String)], seen: Seen) -> Self {
        let found: Option<Vec<Struct>> = kinds
            .iter()
            .map(|(api_version, kind)| {
                let of = schema::of_kind(api_version, kind)?;
                let is_object = true;
                Some(Struct { of, seen, is_object })
            })
            .collect();
        match found {
            Some(found) if !found.is_empty() => Self::Object(found),
            _ => Self::Resource,
        }
    }

    /// A container of any of the lists of a Pod.
    pub(crate) fn any_container() -> Self {
        let pod = Self::of_kinds(&[("v1".to_owned(), "Pod".to_owned())], Seen::Validated);
        let spec = pod.field("spec").ty;
        let lists = ["containers", "initContainers", "ephemeralContainers"];
        let mut items = lists.map(|list| spec.field(list).ty.item()).into_iter();
        let first = items.next().unwrap_or(Self::Any);
        items.fold(first, Self::either)
    }

    /// What is known of a field.
    pub(crate) fn field(&self, name: &str) -> Field {
        let any = |required| Field {
            ty: Self::Any,
            required,
            always: required,
            nullable: false,
        };
        match self {
            Self::Object(structs) => {
                // A kind that does not have the field loses it when it is decoded.
                let mut fields = structs.iter().filter_map(|own| own.field(name));
                let Some(mut all) = fields.next() else {
                    return any(false);
                };
                let lacking = structs.iter().any(|own| own.field(name).is_none());
                all.required &= !lacking;
                all.always &= !lacking;
                for field in fields {
                    if field.ty != all.ty {
                        all.ty = all.ty.either(field.ty);
                    }
                    all.required &= field.required;
                    all.always &= field.always;
                    all.nullable |= field.nullable;
                }
                all
            }
            Self::Resource => match (name, *METADATA) {
                ("apiVersion" | "kind", _) => Field {
                    ty: Self::name(),
                    required: true,
                    always: true,
                    nullable: false,
                },
                ("metadata", Some(of)) => Field {
                    ty: Self::Object(vec![Struct {
                        of,
                        seen: Seen::Stored,
                        is_object: false,
                    }]),
                    required: true,
                    always: true,
                    nullable: false,
                },
                _ => any(false),
            },
            Self::ResourceList if name == "items" => Field {
                ty: Self::list(Self::Resource),
                required: true,
                always: true,
                nullable: false,
            },
            Self::Map(value) => Field {
                ty: (**value).clone(),
                required: false,
                always: false,
                nullable: false,
            },
            _ => any(false),
        }
    }

    /// The elements of a list.
    pub(crate) fn item(&self) -> Self {
        match self {
            Self::List { item, .. } => (**item).clone(),
            _ => Self::Any,
        }
    }

    fn either(self, other: Self) -> Self {
        match (self, other) {
            (Self::Object(mut left), Self::Object(right)) => {
                left.extend(right);
                left.dedup();
                Self::Object(left)
            }
            (Self::Text(left), Self::Text(right)) => Self::Text(Text {
                nonempty: left.nonempty && right.nonempty,
                plain: left.plain && right.plain,
                quantity: left.quantity && right.quantity,
                choices: if left.choices == right.choices {
                    left.choices
                } else {
                    Vec::new()
                },
            }),
            (
                Self::List { item, nonempty },
                Self::List {
                    item: other,
                    nonempty: other_nonempty,
                },
            ) => Self::List {
                item: Box::new(item.either(*other)),
                nonempty: nonempty && other_nonempty,
            },
            (left, right) if left == right => left,
            _ => Self::Any,
        }
    }

    /// Whether values of the type can be false in JMESPath's sense: false or empty.
    pub(crate) fn can_be_false(&self) -> bool {
        match self {
            Self::Int
            | Self::Number
            | Self::Duration
            | Self::Timestamp
            | Self::Resource
            | Self::ResourceList
            | Self::Request => false,
            Self::Text(text) => !text.nonempty,
            Self::List { nonempty, .. } => !nonempty,
            Self::Object(structs) => !structs.iter().all(|own| own.has_required_field()),
            _ => true,
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Number)
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List { .. })
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(
            self,
            Self::Map(_) | Self::Object(_) | Self::Resource | Self::ResourceList | Self::ImageData
        )
    }

    pub(crate) fn as_text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Struct {
    fn field(self, name: &str) -> Option<Field> {
        let found = field_of(self.of, name, self.seen)?;
        let mut ty = read(&found.shape, self.seen);
        let mut always = found.always;
        let mut required = is_given(self.of, name, &found);
        if self.of.name() == "meta.v1.ObjectMeta" {
            match name {
                "name" => {
                    ty = Type::name();
                    required = true;
                    always = true;
                }
                "namespace" | "uid" => ty = Type::name(),
                "labels" => {
                    let plain = true;
                    let value = Type::Text(Text {
                        plain,
                        ..Text::default()
                    });
                    ty = Type::Map(Box::new(value));
                }
                _ => {}
            }
        }
        if self.is_object && matches!(name, "apiVersion" | "kind") {
            ty = Type::name();
        }
        let mut nullable = found.nullable;
        match &mut ty {
            Type::Text(text) => {
                text.nonempty |= found.nonzero;
                text.plain |= !found.choices.is_empty();
                text.choices = found.choices;
            }
            Type::List { nonempty, .. } => {
                // Validation requires containers (`pkg/apis/core/validation`, `validateContainers`).
                let containers =
                    self.of.name() == "core.v1.PodSpec" && name == "containers" && self.seen.has_containers();
                *nonempty = found.nonzero || containers;
                nullable &= !containers;
                required |= containers;
                always |= containers;
            }
            _ => {}
        }
        Some(Field {
            ty,
            required,
            always,
            nullable,
        })
    }

    fn has_required_field(self) -> bool {
        self.of
            .fields()
            .any(|name| self.field(name).is_some_and(|field| field.always))
    }
}

/// What is known of a field of a struct type.
pub(crate) fn field_of(own: schema::Type, name: &str, seen: Seen) -> Option<schema::Field> {
    let is_name = name == "name";
    // Merges need the names of containers, regardless of what changes them.
    let merged = is_name && matches!(own.name(), "core.v1.Container" | "core.v1.EphemeralContainer");
    let decoded = match seen {
        Seen::Validated => false,
        Seen::Unvalidated => !merged,
        Seen::Stored => true,
    };
    let mut found = own.field(name, decoded)?;
    // The API server only warns about pull secrets without a name.
    if is_name && own.name() == "core.v1.LocalObjectReference" {
        (found.required, found.always, found.nonzero) = (false, false, false);
    }
    Some(found)
}

/// Whether a field is there in every object as people write it: tests give objects without what the API server adds.
pub(crate) fn is_given(own: schema::Type, name: &str, field: &schema::Field) -> bool {
    let shell = matches!(
        name,
        "apiVersion" | "kind" | "metadata" | "spec" | "template" | "jobTemplate"
    );
    let of_template = own.name().ends_with("TemplateSpec") && name == "metadata";
    field.required || field.always && shell && !of_template
}

fn read(shape: &schema::Shape, seen: Seen) -> Type {
    match shape {
        schema::Shape::Text | schema::Shape::Time => Type::text(),
        schema::Shape::Bool => Type::Bool,
        schema::Shape::Int(..) => Type::Int,
        schema::Shape::Float => Type::Number,
        schema::Shape::Quantity => Type::Text(Text {
            nonempty: true,
            plain: true,
            quantity: true,
            choices: Vec::new(),
        }),
        schema::Shape::IntOrString => Type::IntOrText,
        schema::Shape::Struct(of) => Type::Object(vec![Struct {
            of: *of,
            seen,
            is_object: false,
        }]),
        schema::Shape::List(item) => Type::list(read(item, seen)),
        schema::Shape::Map(value) => Type::Map(Box::new(read(value, seen))),
        schema::Shape::Any => Type::Any,
    }
}
