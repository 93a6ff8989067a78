//! Static types of CEL expressions.
//!
//! Upstream counterpart: cel-go `common/types/types.go` and the printing rules of `checker/format.go`. Protobuf
//! messages are left out: no Kubernetes or Kyverno environment declares any.

use std::{fmt, sync::Arc};

use super::ast::Name;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Any value; the type is known at run time only.
    Dyn,
    /// Any value, as Kyverno's libraries declare it: differs from `dyn` only in how it prints.
    Any,
    /// The type after a reported error.
    Error,
    /// `null`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// A primitive type that may be null, the type of protobuf's wrapper messages.
    Wrapper(Arc<Type>),
    /// A list of one element type.
    List(Arc<Type>),
    /// A map of one key type and one value type.
    Map(Arc<(Type, Type)>),
    /// A declared structure.
    Struct(Name),
    /// An opaque type of a library, with its parameters.
    Opaque(Name, Arc<[Type]>),
    /// A type parameter of an overload before it is instantiated, a type variable of the checker after that.
    Param(u32),
    Type(Option<Arc<Type>>),
}

/// A declared structure: the fields of a type and their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StructType {
    /// The name, as messages print it.
    pub name: Name,
    pub fields: Vec<(Name, Type)>,
}

/// The first type parameter of an overload.
pub(crate) const A: Type = Type::Param(0);
/// The second type parameter of an overload.
pub(crate) const B: Type = Type::Param(1);

/// The name of the optional type.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    /// A list of elements of a type.
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// A map from keys to values.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// A primitive type that may be null.
    pub fn wrapper(inner: Type) -> Type {
        Type::Wrapper(Arc::new(inner))
    }

    /// An optional value of a type.
    pub fn optional(inner: Type) -> Type {
        Type::Opaque(OPTIONAL.into(), Arc::from([inner]))
    }

    /// A library's opaque type without parameters.
    pub(crate) fn opaque(name: &str) -> Type {
        Type::Opaque(name.into(), Arc::from([]))
    }

    /// A declared structure.
    pub fn structure(name: &str) -> Type {
        Type::Struct(name.into())
    }

    /// The type of values that are types.
    pub(crate) fn type_of(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    /// Whether this is `dyn` or `any`.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any)
    }

    /// Whether this is `dyn` or the type after an error.
    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any | Type::Error)
    }

    /// The type inside an optional type.
    pub(crate) fn unwrap_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// The name of the values' type at run time.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Error => "*error*",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Wrapper(inner) => inner.runtime_name(),
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Struct(name) | Type::Opaque(name, _) => name,
            Type::Param(_) => "",
            Type::Type(_) => "type",
        }
    }

    /// The type with run-time names throughout, as cel-go's `Type.String` prints it: API validation shows it for an
    /// expression whose result has the wrong type.
    pub fn declared_name(&self) -> String {
        let with = |parameters: &[&Type]| {
            let inner: Vec<String> = parameters.iter().map(|p| p.declared_name()).collect();
            format!("{}({})", self.runtime_name(), inner.join(", "))
        };
        match self {
            Type::List(element) => with(&[element]),
            Type::Map(entry) => with(&[&entry.0, &entry.1]),
            Type::Opaque(_, parameters) if !parameters.is_empty() => with(&parameters.iter().collect::<Vec<_>>()),
            Type::Type(Some(inner)) => with(&[inner]),
            Type::Wrapper(_) => self.to_string(),
            Type::Param(n) => format!("<_var{n}>"),
            Type::Dyn
            | Type::Any
            | Type::Error
            | Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
            | Type::Struct(_)
            | Type::Opaque(..)
            | Type::Type(None) => self.runtime_name().to_owned(),
        }
    }
}

impl fmt::Display for Type {
    /// The type as the checker's messages print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Any => f.write_str("any"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Param(n) => write!(f, "_var{n}"),
            Type::Wrapper(inner) => write!(f, "wrapper({inner})"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Type(Some(inner)) => write!(f, "type({inner})"),
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                write!(f, "{name}(")?;
                for (i, parameter) in parameters.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    parameter.fmt(f)?;
                }
                f.write_str(")")
            }
            Type::Dyn
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::String
            | Type::Bytes
            | Type::Struct(_)
            | Type::Opaque(..)
            | Type::Type(None) => f.write_str(self.runtime_name()),
        }
    }
}
