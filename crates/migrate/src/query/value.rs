//! A translated value: its CEL expressions, its type, and what JMESPath makes of it if it is not there.
//!
//! No upstream counterpart. JMESPath has three ways of not having a value: a missing key is an error that most operators take
//! for null, an index out of range is null, and a function that refuses its argument is an error everywhere. In CEL the last
//! is an error as well; the first is an error where the value is read plainly, and an absent value in an optional chain.

use kyvtest_go_compat::value::Data;

use super::types::Type;
use crate::{Expr, Refusal, RefusalCode, words};

/// What JMESPath has in place of a value that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The value is always there.
    Never,
    /// The error of a missing key.
    Error,
    Null,
    /// One or the other, depending on which part of the path is missing.
    Either,
}

/// A translated value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    /// The value, given that it is there; an error if it is not.
    plain: Expr,
    /// The same as an optional value, if it has been built as one.
    optional: Option<Expr>,
    /// Whether the value is there; `None` if always.
    present: Option<Expr>,
    /// Of a list: the same with an empty list in place of a missing one.
    or_empty: Option<Expr>,
    pub(crate) missing: Missing,
    pub(crate) ty: Type,
    /// Whether a value that is there can fail to evaluate.
    pub(crate) fails: bool,
    /// The value, if it is constant.
    pub(crate) literal: Option<Data>,
    /// JMESPath's list has nulls that the expression leaves out.
    pub(crate) drops_nulls: bool,
    /// JMESPath has an empty text where the list is empty or missing (`list || ''`).
    pub(crate) or_empty_text: bool,
    /// The map whose keys the list has.
    pub(crate) keys_of: Option<Box<Value>>,
    /// A word for the elements of the list.
    pub(crate) hint: Option<String>,
    /// The optional expression is not one yet: `oldObject`, which is an empty map or null if there is none.
    soft: bool,
    /// Of a context entry: whether it has a value. Reading one that has none is an error that no default replaces.
    pub(crate) loads: Option<Box<Expr>>,
    /// Whether the API server always shows the value, so that it is missing only in objects as people write them.
    served: bool,
    /// Of a value that may be missing or null: that it is not null, an error if it is missing.
    not_null: Option<Box<Expr>>,
    /// The path below the object under review, as in [`crate::Subject`].
    pub(crate) path: Option<Vec<String>>,
}

impl Value {
    /// A value that is always there.
    pub(crate) fn new(expr: Expr, ty: Type) -> Self {
        Self {
            plain: expr,
            optional: None,
            present: None,
            or_empty: None,
            missing: Missing::Never,
            ty,
            fails: false,
            literal: None,
            drops_nulls: false,
            or_empty_text: false,
            keys_of: None,
            hint: None,
            soft: false,
            loads: None,
            served: true,
            not_null: None,
            path: None,
        }
    }

    /// The old object, which is there on UPDATE and DELETE and null in JMESPath on CREATE.
    pub(crate) fn old_object(expr: Expr, ty: Type) -> Self {
        Self {
            optional: Some(expr.clone()),
            present: Some(expr.optional("metadata").call("hasValue", [])),
            missing: Missing::Null,
            soft: true,
            served: false,
            ..Self::new(expr, ty)
        }
    }

    /// A value that is there under a condition, else null.
    pub(crate) fn if_present(expr: Expr, ty: Type, present: Expr) -> Self {
        let missing = Missing::Null;
        let present = Some(present);
        Self {
            present,
            missing,
            served: false,
            ..Self::new(expr, ty)
        }
    }

    /// A value that is as optional as the given expression, else null.
    pub(crate) fn optional(plain: Expr, optional: Expr, ty: Type) -> Self {
        let missing = Missing::Null;
        let present = Some(optional.call("hasValue", []));
        let optional = Some(optional);
        Self {
            optional,
            present,
            missing,
            served: false,
            ..Self::new(plain, ty)
        }
    }

    /// A constant.
    ///
    /// # Errors
    /// A value that CEL has no literal for.
    pub(crate) fn literal(data: &Data) -> Result<Self, Refusal> {
        let (expr, ty) = constant(data)?;
        let literal = Some(data.clone());
        Ok(Self {
            literal,
            ..Self::new(expr, ty)
        })
    }

    /// The same value of another type.
    pub(crate) fn with_type(self, ty: Type) -> Self {
        Self { ty, ..self }
    }

    pub(crate) fn with_path(self, path: Option<Vec<String>>) -> Self {
        Self { path, ..self }
    }

    /// The same value, which can fail to evaluate or not.
    pub(crate) fn failing_if(self, fails: bool) -> Self {
        Self { fails, ..self }
    }

    /// The same value, read by another expression.
    pub(crate) fn with_plain(self, plain: Expr) -> Self {
        Self { plain, ..self }
    }

    /// The value, given that it is there.
    pub(crate) fn plain(&self) -> &Expr {
        &self.plain
    }

    /// The same value known to be there, for the part of an expression behind a guard.
    pub(crate) fn assumed(&self) -> Self {
        Self {
            optional: None,
            present: None,
            or_empty: None,
            missing: Missing::Never,
            ..self.clone()
        }
    }

    /// Whether the value is there and not null.
    pub(crate) fn present(&self) -> Expr {
        self.present.clone().unwrap_or_else(|| Expr::bool(true))
    }

    pub(crate) fn is_always_present(&self) -> bool {
        self.missing == Missing::Never
    }

    /// Whether the value is there in every object that the API server shows.
    pub(crate) fn is_served(&self) -> bool {
        self.missing == Missing::Never || self.served
    }

    /// Whether reading the value plainly can be an error.
    pub(crate) fn fails_if_read(&self) -> bool {
        self.fails || matches!(self.missing, Missing::Error | Missing::Either) && !self.served
    }

    /// The value as an optional one.
    pub(crate) fn as_optional(&self) -> Expr {
        match (&self.optional, &self.present) {
            (Some(object), _) if self.soft => Expr::function("optional.ofNonZeroValue", [object.clone()]),
            (Some(optional), _) => optional.clone(),
            (None, Some(present)) => {
                let some = Expr::function("optional.of", [self.plain.clone()]);
                present.choose(&some, &Expr::function("optional.none", []))
            }
            (None, None) => Expr::function("optional.of", [self.plain.clone()]),
        }
    }

    /// The value, or another one if it is missing or null.
    pub(crate) fn or_else(&self, default: &Expr) -> Expr {
        if default.as_str() == "[]"
            && let Some(or_empty) = &self.or_empty
        {
            return or_empty.clone();
        }
        match (&self.optional, &self.present) {
            (Some(_), _) => self.as_optional().call("orValue", [default.clone()]),
            (None, Some(present)) => present.choose(&self.plain, default),
            (None, None) => self.plain.clone(),
        }
    }

    /// The list, empty if it is missing or null.
    pub(crate) fn list_or_empty(&self) -> Expr {
        self.or_else(&Expr::list([]))
    }

    pub(crate) fn with_or_empty(mut self, or_empty: Expr) -> Self {
        self.or_empty = (self.missing != Missing::Never).then_some(or_empty);
        self
    }

    /// The value as JMESPath hands it on where a missing key is taken for null.
    pub(crate) fn or_null(mut self) -> Self {
        if self.missing != Missing::Never {
            self.missing = Missing::Null;
        }
        self
    }

    /// An element of the list, under the name of a loop variable.
    pub(crate) fn element(&self, variable: &str) -> Self {
        Self {
            path: self.path.as_ref().map(|path| extended(path, "*")),
            ..Self::new(Expr::primary(variable), self.ty.item())
        }
    }

    pub(crate) fn field(&self, name: &str) -> Self {
        if let Some(Data::Map(entries)) = &self.literal
            && let Some(Ok(value)) = entries.get(name).map(Self::literal)
        {
            return value;
        }
        let field = self.ty.field(name);
        let plain = self.plain.field(name);
        let missing = match (self.missing, field.required) {
            (Missing::Never, true) => Missing::Never,
            (Missing::Never, false) | (Missing::Error, _) => Missing::Error,
            (Missing::Null, true) => Missing::Null,
            _ => Missing::Either,
        };
        let mut value = Self {
            fails: self.fails,
            missing,
            served: self.served && field.always && !field.nullable,
            hint: Some(if field.ty.is_list() || field.ty == Type::Any {
                words::singular(name)
            } else {
                words::field(name)
            }),
            path: self.path.as_ref().map(|path| extended(path, name)),
            ..Self::new(plain, field.ty)
        };
        if missing != Missing::Never {
            let optional = match (&self.optional, &self.present) {
                (Some(optional), _) if field.required && !self.soft => optional.field(name),
                (Some(optional), _) => optional.optional(name),
                (None, Some(_)) => self.as_optional().optional(name),
                (None, None) => self.plain.optional(name),
            };
            value.present = Some(if self.missing == Missing::Never {
                self.has(name)
            } else {
                optional.call("hasValue", [])
            });
            value.optional = Some(optional);
        }
        if field.nullable {
            value.make_nullable();
        }
        value
    }

    /// Whether a value that is there has a key.
    fn has(&self, name: &str) -> Expr {
        let selected = self.plain.field(name);
        if selected.as_str().ends_with(']') || matches!(self.ty, Type::Map(_)) {
            return Expr::string(name).relation("in", &self.plain);
        }
        selected.has()
    }

    /// Lets the value also be null.
    fn make_nullable(&mut self) {
        let not_null = self.plain.relation("!=", &Expr::primary("null"));
        if matches!(self.missing, Missing::Error) {
            self.not_null = Some(Box::new(not_null.clone()));
        }
        self.present = Some(Expr::all(self.present.take().into_iter().chain([not_null])));
        self.optional = None;
        self.missing = match self.missing {
            Missing::Never | Missing::Null => Missing::Null,
            _ => Missing::Either,
        };
    }

    /// An element of the list; null if it is out of range.
    pub(crate) fn index(&self, index: i64) -> Self {
        let at = if index < 0 {
            self.plain.call("size", []).sum("-", &Expr::int(-index))
        } else {
            Expr::int(index)
        };
        let first = matches!(self.ty, Type::List { nonempty: true, .. }) && matches!(index, 0 | -1);
        let plain = self.plain.index(&at);
        let missing = match (self.missing, first) {
            (missing, true) => missing,
            (Missing::Never | Missing::Null, false) => Missing::Null,
            _ => Missing::Either,
        };
        let mut value = Self {
            fails: self.fails,
            missing,
            served: self.served && first,
            path: self.path.as_ref().map(|path| extended(path, "*")),
            ..Self::new(plain, self.ty.item())
        };
        if missing != Missing::Never {
            let optional = match (&self.optional, &self.present) {
                (Some(optional), _) => optional.optional_index(&at),
                (None, Some(_)) => self.as_optional().optional_index(&at),
                (None, None) => self.plain.optional_index(&at),
            };
            value.present = Some(optional.call("hasValue", []));
            value.optional = Some(optional);
        }
        value
    }

    /// The value where a missing key is an error of the whole expression: the key or the value of a condition.
    ///
    /// # Errors
    /// Where neither an error nor null is certain if the value is missing.
    pub(crate) fn read(&self) -> Result<(), Refusal> {
        if self.missing == Missing::Either && !self.served {
            let reason = format!(
                "`{}` may be missing or null, which JMESPath tells apart; write `|| ''` or another default behind the path",
                self.plain
            );
            return Err(Refusal::new(RefusalCode::Query, reason));
        }
        Ok(())
    }

    /// The value as the key or the value of a condition.
    ///
    /// # Errors
    /// See [`Value::read`].
    pub(crate) fn of_condition(mut self) -> Result<Self, Refusal> {
        if self.missing == Missing::Either
            && !self.served
            && let Some(not_null) = self.not_null.take()
        {
            self.missing = Missing::Null;
            self.present = Some(*not_null);
            self.optional = None;
            self.fails = true;
            return Ok(self);
        }
        self.read()?;
        Ok(self)
    }

    /// Whether JMESPath takes the value for true.
    ///
    /// # Errors
    /// Where that depends on an unknown type.
    pub(crate) fn truth(&self) -> Expr {
        let assumed = |plain: &Expr| match &self.ty {
            Type::Bool | Type::Truth => plain.clone(),
            Type::Null => Expr::bool(false),
            Type::Text(text) if !text.nonempty => plain.relation("!=", &Expr::string("")),
            Type::List { nonempty: false, .. } | Type::Map(_) => plain.call("size", []).relation(">", &Expr::int(0)),
            Type::Object(_) if self.ty.can_be_false() => plain.call("size", []).relation(">", &Expr::int(0)),
            Type::Any => {
                let falsy = [
                    Expr::primary("dyn(false)"),
                    Expr::primary("null"),
                    Expr::string(""),
                    Expr::primary("[]"),
                    Expr::primary("{}"),
                ]
                .map(|falsy| {
                    if falsy.as_str().starts_with("dyn") {
                        falsy
                    } else {
                        Expr::function("dyn", [falsy])
                    }
                });
                plain.relation("in", &Expr::list(falsy)).negate()
            }
            _ => Expr::bool(true),
        };
        if self.missing == Missing::Never {
            return assumed(&self.plain);
        }
        match &self.ty {
            Type::Bool | Type::Truth => self.or_else(&Expr::bool(false)),
            Type::Text(text) if !text.nonempty => self.or_else(&Expr::string("")).relation("!=", &Expr::string("")),
            Type::List { nonempty: false, .. } => self.list_or_empty().call("size", []).relation(">", &Expr::int(0)),
            _ => Expr::all([self.present(), assumed(&self.plain)]),
        }
    }
}

fn extended(path: &[String], step: &str) -> Vec<String> {
    path.iter().cloned().chain([step.to_owned()]).collect()
}

/// A literal, with its type.
fn constant(data: &Data) -> Result<(Expr, Type), Refusal> {
    Ok(match data {
        Data::Null => (Expr::primary("null"), Type::Null),
        Data::Bool(value) => (Expr::bool(*value), Type::Bool),
        Data::Int(value) => (Expr::int(*value), Type::Int),
        Data::Uint(value) => (Expr::primary(format!("{value}u")), Type::Number),
        Data::Double(value) => number(*value)?,
        Data::String(text) => {
            let plain = !text.contains(['*', '?']);
            let nonempty = !text.is_empty();
            let known = super::types::Text {
                nonempty,
                plain,
                ..super::types::Text::default()
            };
            (Expr::string(text), Type::Text(known))
        }
        Data::List(items) => {
            let items: Vec<(Expr, Type)> = items.iter().map(constant).collect::<Result<_, _>>()?;
            let item = match items.split_first() {
                Some(((_, first), rest)) if rest.iter().all(|(_, ty)| same_kind(first, ty)) => first.clone(),
                _ => Type::Any,
            };
            let mixed = item == Type::Any;
            let nonempty = !items.is_empty();
            let items = items
                .into_iter()
                .map(|(expr, _)| if mixed { Expr::function("dyn", [expr]) } else { expr });
            let item = Box::new(item);
            (Expr::list(items), Type::List { item, nonempty })
        }
        Data::Map(entries) => {
            let mut texts = Vec::new();
            let mut types = Vec::new();
            for (key, value) in entries.iter() {
                let (expr, ty) = constant(value)?;
                texts.push(format!("{}: {expr}", Expr::string(key)));
                types.push(ty);
            }
            let value = match types.split_first() {
                Some((first, rest)) if rest.iter().all(|ty| same_kind(first, ty)) => first.clone(),
                Some(_) => {
                    let reason = "a map with values of several types has no literal in CEL";
                    return Err(Refusal::new(RefusalCode::Query, reason));
                }
                None => Type::Any,
            };
            (
                Expr::primary(format!("{{{}}}", texts.join(", "))),
                Type::Map(Box::new(value)),
            )
        }
    })
}

fn same_kind(left: &Type, right: &Type) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

fn number(value: f64) -> Result<(Expr, Type), Refusal> {
    if !value.is_finite() {
        return Err(Refusal::new(
            RefusalCode::Query,
            "a number that is not finite has no literal in CEL",
        ));
    }
    if value.trunc() == value && value.abs() < 9e15 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be a whole number of a small size"
        )]
        let whole = value as i64;
        return Ok((Expr::int(whole), Type::Int));
    }
    Ok((Expr::primary(format!("{value:?}")), Type::Number))
}
