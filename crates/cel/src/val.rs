//! Run-time values: 24 bytes, freely copied, errors included.
//!
//! Upstream counterpart: cel-go `common/types`. Strings, lists and maps are borrowed from the document, the program or
//! the evaluation's scratch memory.

use std::{any::Any, cmp::Ordering, fmt};

use super::{time::Timestamp, types::Type};
use kyvtest_go_compat::value;

/// A value, or the error in its place.
#[derive(Clone, Copy)]
pub enum Val<'a> {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    Uint(u64),
    /// `double`
    Double(f64),
    /// `string`
    String(&'a str),
    /// `bytes`
    Bytes(&'a [u8]),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A type, by its run-time name.
    Type(&'a str),
    /// A list made by the expression.
    List(&'a [Val<'a>]),
    DocumentList(value::List<'a>),
    /// A map made by the expression: entries in order, each key once.
    Map(&'a [(Val<'a>, Val<'a>)]),
    DocumentMap(value::Map<'a>),
    /// The lazily evaluated `variables`.
    Variables,
    /// An optional value.
    Optional(Option<&'a Val<'a>>),
    /// A value of a library's own type.
    Opaque(&'a dyn Opaque),
    /// A value of `Object`, of a type below it, or of `JSONPatch`.
    Object(&'a Object<'a>),
    /// An error with its message.
    Error(&'a str),
}

/// A value of the types that mutating policies construct.
///
/// Upstream: `k8s.io/apiserver/pkg/cel/mutation`, `ObjectVal` and `JSONPatchVal`.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    /// The name of the type, such as `Object.spec.containers`.
    pub type_name: &'a str,
    /// The fields in the order in which the expression sets them.
    pub fields: &'a [(&'a str, Val<'a>)],
}

impl<'a> Object<'a> {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<Val<'a>> {
        let field = self.fields.iter().find(|(field, _)| *field == name);
        field.map(|(_, value)| *value)
    }
}

/// A value of a library's own type.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// The run-time type name.
    fn type_name(&self) -> &'static str;

    /// Whether this equals another opaque value; `None` if cel-go returns `no such overload`.
    fn equals(&self, other: &dyn Opaque) -> Option<bool>;

    /// Whether this equals a value that is not opaque; `None` if cel-go returns `no such overload`.
    fn equals_plain(&self) -> Option<bool> {
        None
    }

    /// The size for cost accounting, if the type has one.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Whether the type is a structure: a missing field is then the error `no such field: NAME`, else `no such key:
    /// NAME`.
    fn is_structure(&self) -> bool {
        false
    }

    /// The value of a field, for types that have fields.
    fn field<'a>(&'a self, _name: &str) -> Option<Val<'a>> {
        None
    }

    /// Whether a field has a value other than the zero value (`has(x.field)`); `None` if there is no such field.
    fn is_set(&self, name: &str) -> Option<bool> {
        self.field(name).map(|_| true)
    }

    /// Whether an optional selection (`x.?field`) is the error `no such field`, even if the field is set.
    fn has_no_optional_fields(&self) -> bool {
        false
    }

    /// The error of `type(x)` for types that do not support it.
    fn type_error(&self) -> Option<&'static str> {
        None
    }

    /// Whether this is the zero value of its type (`optional.ofNonZeroValue`).
    fn is_zero(&self) -> bool {
        false
    }

    /// The value as Go's `encoding/json` writes it, for Kyverno's `json.marshal`; `None` if unknown.
    fn go_json(&self) -> Option<String> {
        None
    }

    /// The value as Go's `%v` prints it.
    fn display(&self) -> String {
        self.type_name().to_owned()
    }
}

impl<'a> From<value::Value<'a>> for Val<'a> {
    fn from(value: value::Value<'a>) -> Self {
        match value {
            value::Value::Null => Val::Null,
            value::Value::Bool(b) => Val::Bool(b),
            value::Value::Int(i) => Val::Int(i),
            value::Value::Uint(u) => Val::Uint(u),
            value::Value::Double(d) => Val::Double(d),
            value::Value::String(s) => Val::String(s),
            value::Value::List(list) => Val::DocumentList(list),
            value::Value::Map(map) => Val::DocumentMap(map),
        }
    }
}

/// The number of bytes of a string that count as one step of a traversal.
const TEXT_STEP: u64 = 64;

/// The error of an operand of the wrong type.
pub(crate) const NO_SUCH_OVERLOAD: Val<'static> = Val::Error("no such overload");

/// The capabilities of a value's type at run time, which functions with one shared implementation require.
///
/// Upstream: `common/types/traits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trait {
    /// `+`
    Adder,
    /// `<`
    Comparer,
    /// `/`
    Divider,
    /// All that lists can do.
    Lister,
    /// `matches`
    Matcher,
    /// `%`
    Modder,
    /// `*`
    Multiplier,
    /// `-`
    Subtractor,
    /// `size`
    Sizer,
    /// Old-style methods; determines the message of a missing overload.
    Receiver,
}

impl<'a> Val<'a> {
    /// The absent optional.
    pub const NONE: Val<'static> = Val::Optional(None);

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Val::Error(_))
    }

    /// The run-time type name.
    pub fn type_name(&self) -> &'a str {
        match self {
            Val::Null => "null_type",
            Val::Bool(_) => "bool",
            Val::Int(_) => "int",
            Val::Uint(_) => "uint",
            Val::Double(_) => "double",
            Val::String(_) => "string",
            Val::Bytes(_) => "bytes",
            Val::Duration(_) => "google.protobuf.Duration",
            Val::Timestamp(_) => "google.protobuf.Timestamp",
            Val::Type(_) => "type",
            Val::List(_) | Val::DocumentList(_) => "list",
            Val::Map(_) | Val::DocumentMap(_) => "map",
            Val::Variables => "kubernetes.variables",
            Val::Optional(_) => super::types::OPTIONAL,
            Val::Opaque(opaque) => opaque.type_name(),
            Val::Object(object) => object.type_name,
            Val::Error(_) => "error",
        }
    }

    /// The name of cel-go's Go type, which some error messages print.
    pub fn go_type(&self) -> &'static str {
        match self {
            Val::Null => "types.Null",
            Val::Bool(_) => "types.Bool",
            Val::Int(_) => "types.Int",
            Val::Uint(_) => "types.Uint",
            Val::Double(_) => "types.Double",
            Val::String(_) => "types.String",
            Val::Bytes(_) => "types.Bytes",
            Val::Duration(_) => "types.Duration",
            Val::Timestamp(_) => "types.Timestamp",
            Val::Type(_) => "*types.Type",
            Val::List(_) | Val::DocumentList(_) => "*types.baseList",
            Val::Map(_) | Val::DocumentMap(_) | Val::Variables => "*types.baseMap",
            Val::Optional(_) => "*types.Optional",
            Val::Opaque(_) | Val::Object(_) => "ref.Val",
            Val::Error(_) => "*types.Err",
        }
    }

    /// Whether the value's type has a trait.
    pub(crate) fn has_trait(&self, wanted: Trait) -> bool {
        use Trait::*;
        match self {
            Val::Bool(_) => matches!(wanted, Comparer),
            Val::Bytes(_) => matches!(wanted, Adder | Comparer | Sizer),
            Val::Double(_) => matches!(wanted, Adder | Comparer | Divider | Multiplier | Subtractor),
            Val::Duration(_) => matches!(wanted, Adder | Comparer | Receiver | Subtractor),
            Val::Int(_) => matches!(wanted, Adder | Comparer | Divider | Modder | Multiplier | Subtractor),
            Val::Uint(_) => matches!(wanted, Adder | Comparer | Divider | Modder | Multiplier | Subtractor),
            Val::List(_) | Val::DocumentList(_) => {
                matches!(wanted, Adder | Lister | Sizer)
            }
            Val::Map(_) | Val::DocumentMap(_) | Val::Variables => {
                matches!(wanted, Sizer)
            }
            Val::String(_) => matches!(wanted, Adder | Comparer | Matcher | Receiver | Sizer),
            Val::Timestamp(_) => matches!(wanted, Adder | Comparer | Receiver | Subtractor),
            Val::Null | Val::Type(_) | Val::Optional(_) | Val::Opaque(_) | Val::Object(_) | Val::Error(_) => false,
        }
    }

    /// Whether a value fits a declared parameter, by cel-go's guards: lists and maps by their first element.
    ///
    /// Upstream: `Type.IsAssignableRuntimeType`.
    pub(crate) fn fits(&self, declared: &Type) -> bool {
        match declared {
            Type::Dyn | Type::Any | Type::Param(_) => true,
            Type::Wrapper(inner) => matches!(self, Val::Null) || self.fits(inner),
            Type::List(element) => self.is_list() && self.list_get(0).is_none_or(|first| first.fits(element)),
            Type::Map(entry) => match self {
                Val::Map(entries) => entries
                    .first()
                    .is_none_or(|(key, value)| key.fits(&entry.0) && value.fits(&entry.1)),
                Val::DocumentMap(map) => map.entry(0).is_none_or(|(key, value)| {
                    Val::String(key.text()).fits(&entry.0) && Val::from(value).fits(&entry.1)
                }),
                _ => false,
            },
            Type::String => matches!(self, Val::String(_)),
            Type::Bool => matches!(self, Val::Bool(_)),
            Type::Int => matches!(self, Val::Int(_)),
            other => self.type_name() == other.runtime_name(),
        }
    }

    pub fn is_list(&self) -> bool {
        matches!(self, Val::List(_) | Val::DocumentList(_))
    }

    pub fn is_map(&self) -> bool {
        matches!(self, Val::Map(_) | Val::DocumentMap(_))
    }

    /// The number of elements of a list or entries of a map; 0 for everything else.
    pub fn len(&self) -> usize {
        match self {
            Val::List(items) => items.len(),
            Val::DocumentList(list) => list.len(),
            Val::Map(entries) => entries.len(),
            Val::DocumentMap(map) => map.len(),
            _ => 0,
        }
    }

    /// Whether [`Val::len`] is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element of a list at a position.
    pub(crate) fn list_get(&self, index: usize) -> Option<Val<'a>> {
        match self {
            Val::List(items) => items.get(index).copied(),
            Val::DocumentList(list) => list.get(index).map(Val::from),
            _ => None,
        }
    }

    /// The elements of a list in order; empty for everything else.
    pub fn list_iter(&self) -> ListIter<'a> {
        ListIter {
            list: *self,
            next: 0,
            len: if self.is_list() { self.len() } else { 0 },
        }
    }

    /// The entry of a map at a position, in document order.
    pub(crate) fn map_entry(&self, index: usize) -> Option<(Val<'a>, Val<'a>)> {
        match self {
            Val::Map(entries) => entries.get(index).copied(),
            Val::DocumentMap(map) => map
                .entry(index)
                .map(|(key, value)| (Val::String(key.text()), Val::from(value))),
            _ => None,
        }
    }

    /// The entries of a map in document order; empty for everything else.
    pub fn map_iter(&self) -> impl Iterator<Item = (Val<'a>, Val<'a>)> + use<'a> {
        let map = *self;
        let len = if map.is_map() { map.len() } else { 0 };
        (0..len).map_while(move |i| map.map_entry(i))
    }

    /// The value of a key of a map; numbers of different types are the same key if they are equal.
    ///
    /// Upstream: `common/types/map.go` `Find`.
    pub fn map_get(&self, key: &Val<'_>) -> Option<Val<'a>> {
        match self {
            Val::Map(entries) => entries.iter().find(|(k, _)| k.same_key(key)).map(|(_, value)| *value),
            Val::DocumentMap(map) => match key {
                Val::String(key) => map.get(key).map(Val::from),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether two map keys are the same.
    pub(crate) fn same_key(&self, other: &Val<'_>) -> bool {
        match (self, other) {
            (Val::String(a), Val::String(b)) => a == b,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            // A double finds a key only if it is exactly that number; 2⁶³ as a double equals the largest integer.
            (Val::Int(i), Val::Double(d)) | (Val::Double(d), Val::Int(i)) => {
                super::ops::double_to_int(*d).is_some_and(|whole| whole == *i && whole as f64 == *d)
            }
            (Val::Uint(u), Val::Double(d)) | (Val::Double(d), Val::Uint(u)) => {
                super::ops::double_to_uint(*d).is_some_and(|whole| whole == *u && whole as f64 == *d)
            }
            _ => self.compare_numbers(other) == Some(Some(Ordering::Equal)),
        }
    }

    /// The order of two numbers of any type: outer `None` if one is not a number, inner `None` if one is NaN.
    pub fn compare_numbers(&self, other: &Val<'_>) -> Option<Option<Ordering>> {
        Some(match (self, other) {
            (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
            (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
            (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
            (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Val::Int(a), Val::Double(b)) => compare_int_double(*a, *b),
            (Val::Double(a), Val::Int(b)) => compare_int_double(*b, *a).map(Ordering::reverse),
            (Val::Uint(a), Val::Double(b)) => compare_uint_double(*a, *b),
            (Val::Double(a), Val::Uint(b)) => compare_uint_double(*b, *a).map(Ordering::reverse),
            _ => return None,
        })
    }

    /// CEL equality; `None` if it is the error `no such overload`.
    ///
    /// Upstream: `types.Equal`. Inside lists and maps an element whose comparison is an error counts as equal.
    pub fn equals(&self, other: &Val<'_>) -> Option<bool> {
        self.equals_within(other, &mut { u64::MAX })
    }

    /// Whether the value's text fits in memory: shared parts are printed each time they occur.
    pub(crate) fn is_printable(&self) -> bool {
        let mut steps = 4 << 20;
        self.walk(&mut steps);
        steps > 0
    }

    /// The length of a string in bytes.
    #[inline]
    pub(crate) fn text_len(&self) -> usize {
        match self {
            Val::String(text) => text.len(),
            Val::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Subtracts the steps of a traversal of the whole value from `steps`, and stops when none is left.
    pub(crate) fn walk(&self, steps: &mut u64) {
        *steps = steps.saturating_sub(1 + self.text_len() as u64 / TEXT_STEP);
        match self {
            Val::List(_) | Val::DocumentList(_) => {
                for item in self.list_iter() {
                    if *steps == 0 {
                        break;
                    }
                    item.walk(steps);
                }
            }
            Val::Map(_) | Val::DocumentMap(_) => {
                for (key, value) in self.map_iter() {
                    if *steps == 0 {
                        break;
                    }
                    key.walk(steps);
                    value.walk(steps);
                }
            }
            Val::Object(object) => {
                for (_, value) in object.fields {
                    if *steps == 0 {
                        break;
                    }
                    value.walk(steps);
                }
            }
            Val::Optional(Some(inner)) => inner.walk(steps),
            _ => {}
        }
    }

    /// [`Val::equals`] with a limit: if no step is left, the result is meaningless.
    pub(crate) fn equals_within(&self, other: &Val<'_>, steps: &mut u64) -> Option<bool> {
        let length = match (self, other) {
            (Val::String(a), Val::String(b)) if a.len() == b.len() => a.len(),
            (Val::Bytes(a), Val::Bytes(b)) if a.len() == b.len() => a.len(),
            // Each key is compared with all entries.
            (Val::Map(a), Val::Map(b)) if a.len() == b.len() => a.len().saturating_mul(a.len()),
            _ => 0,
        };
        *steps = steps.saturating_sub(1 + length as u64 / TEXT_STEP);
        if *steps == 0 {
            return None;
        }
        Some(match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Null, _) | (_, Val::Null) => false,
            (Val::String(a), Val::String(b)) => a == b,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Int(a), Val::Int(b)) => a == b,
            (Val::Int(_) | Val::Uint(_) | Val::Double(_), _) => {
                self.compare_numbers(other) == Some(Some(Ordering::Equal))
            }
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Duration(a), Val::Duration(b)) => a == b,
            (Val::Timestamp(a), Val::Timestamp(b)) => a.instant() == b.instant(),
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => return a.equals_within(b, steps),
                (None, Some(_)) | (Some(_), None) => false,
            },
            (Val::List(_) | Val::DocumentList(_), Val::List(_) | Val::DocumentList(_)) => {
                self.len() == other.len()
                    && self
                        .list_iter()
                        .zip(other.list_iter())
                        .all(|(a, b)| a.equals_within(&b, steps) != Some(false) && *steps > 0)
            }
            (Val::Map(_) | Val::DocumentMap(_), Val::Map(_) | Val::DocumentMap(_)) => {
                self.len() == other.len()
                    && self.map_iter().all(|(key, a)| {
                        let b = other.map_get(&key);
                        b.is_some_and(|b| a.equals_within(&b, steps) != Some(false)) && *steps > 0
                    })
            }
            (Val::Object(a), Val::Object(b)) => {
                a.type_name == b.type_name
                    && a.fields.len() == b.fields.len()
                    && a.fields.iter().all(|(name, a)| {
                        let b = b.get(name);
                        b.is_some_and(|b| a.equals_within(&b, steps) != Some(false)) && *steps > 0
                    })
            }
            (Val::Opaque(a), Val::Opaque(b)) => return a.equals(*b),
            (Val::Opaque(a), _) => return a.equals_plain(),
            _ => false,
        })
    }

    /// The value of a library's own type, if it is of that type.
    pub fn downcast<T: Opaque>(&self) -> Option<&'a T> {
        match self {
            Val::Opaque(opaque) => (*opaque as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// The string, if this is one.
    pub fn as_str(&self) -> Option<&'a str> {
        match self {
            Val::String(s) => Some(s),
            _ => None,
        }
    }

    /// The integer, if this is one.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Val::Int(i) => Some(*i),
            _ => None,
        }
    }
}

fn compare_int_double(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    // Upstream compares with the largest integer, which rounds up to 2⁶³ as a double.
    if b > 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    // Upstream compares as doubles within the range.
    (a as f64).partial_cmp(&b)
}

fn compare_uint_double(a: u64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b < 0.0 {
        return Some(Ordering::Greater);
    }
    if b > 18_446_744_073_709_551_616.0 {
        return Some(Ordering::Less);
    }
    (a as f64).partial_cmp(&b)
}

/// The elements of a list.
#[derive(Debug, Clone)]
pub struct ListIter<'a> {
    list: Val<'a>,
    next: usize,
    len: usize,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Val<'a>;

    fn next(&mut self) -> Option<Val<'a>> {
        if self.next >= self.len {
            return None;
        }
        self.next += 1;
        self.list.list_get(self.next - 1)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len - self.next, Some(self.len - self.next))
    }
}

impl ExactSizeIterator for ListIter<'_> {}

impl fmt::Debug for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::print::notation(*self))
    }
}
