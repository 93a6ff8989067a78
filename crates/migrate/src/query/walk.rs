//! Translates the tree of an expression, node by node.
//!
//! Upstream counterpart: go-jmespath's `interpreter.go`; which nodes take a missing key for null follows it.

use kyvtest_go_compat::value::Data;
use kyvtest_jmespath::ast::{Comparator, Node};

use super::{
    text::Marked,
    types::Type,
    value::{Missing, Value},
};
use crate::{Expr, Refusal, RefusalCode, names::Names};

/// One translation.
pub(super) struct Translator<'t, 'n> {
    pub(super) names: &'t mut Names<'n>,
    /// The variables that were inside the expression.
    pub(super) marked: &'t Marked,
}

/// The value that an expression is applied to.
#[derive(Clone, Copy)]
pub(super) enum Current<'v> {
    /// The whole context: a field is a name.
    Root,
    Value(&'v Value),
}

pub(super) fn refused<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(RefusalCode::Query, reason))
}

impl Translator<'_, '_> {
    pub(super) fn node(&mut self, node: &Node, current: Current<'_>) -> Result<Value, Refusal> {
        match node {
            Node::Field(name) => self.field(name, current),
            Node::Current | Node::Identity => match current {
                Current::Value(value) => Ok(value.clone()),
                Current::Root => refused("`@` is the whole context here"),
            },
            Node::Literal(Data::String(text)) => match self.marked.literal(text) {
                Some(value) => value,
                None => Value::literal(&Data::from(&**text)),
            },
            Node::Literal(data) => Value::literal(data),
            Node::Subexpression(sides) => {
                if let Some(value) = self.image_part(node)? {
                    return Ok(value);
                }
                let left = self.node(&sides.0, current)?;
                self.behind(&left, &sides.1)
            }
            Node::IndexExpression(sides) => {
                let left = self.node(&sides.0, current)?;
                match &sides.1 {
                    Node::Index(index) if !left.drops_nulls => Ok(left.index(*index)),
                    Node::Index(_) => refused("the list may have nulls, which count in JMESPath"),
                    _ => refused("slices have no translation; write the list that is meant"),
                }
            }
            Node::Index(index) => match current {
                Current::Value(value) if !value.drops_nulls => Ok(value.index(*index)),
                _ => refused("an index needs a list"),
            },
            Node::Pipe(sides) => {
                let left = self.node(&sides.0, current)?.or_null();
                Ok(self.behind(&left, &sides.1)?.or_null())
            }
            Node::Or(sides) => {
                let left = self.node(&sides.0, current)?.or_null();
                let right = self.node(&sides.1, current)?.or_null();
                Self::or(left, right)
            }
            Node::And(sides) => {
                let left = self.node(&sides.0, current)?;
                let right = self.node(&sides.1, current)?;
                let is_bool = left.ty == Type::Bool && right.ty == Type::Bool;
                let fails = left.fails || right.fails;
                let exact = is_bool && left.is_always_present() && right.is_always_present();
                let ty = if exact { Type::Bool } else { Type::Truth };
                let mut value = Value::new(Expr::all([left.truth(), right.truth()]), ty);
                value.fails = fails;
                Ok(value)
            }
            Node::Not(operand) => {
                let operand = self.node(operand, current)?;
                let mut value = Value::new(operand.truth().negate(), Type::Bool);
                value.fails = operand.fails;
                Ok(value)
            }
            Node::Comparator(comparator, sides) => {
                let left = self.node(&sides.0, current)?.or_null();
                let right = self.node(&sides.1, current)?.or_null();
                Self::compare(*comparator, &left, &right)
            }
            Node::Function(Some(name), args) => self.function(name, args, current),
            Node::Flatten(list) => self.flatten(list, current),
            Node::Projection(sides) => {
                let list = self.node(&sides.0, current)?.or_null();
                self.project(&list, None, &sides.1)
            }
            Node::FilterProjection(parts) => {
                let list = self.node(&parts.0, current)?.or_null();
                self.project(&list, Some(&parts.2), &parts.1)
            }
            Node::ValueProjection(sides) => {
                if let Some(value) = self.image_part(node)? {
                    return Ok(value);
                }
                let map = self.node(&sides.0, current)?.or_null();
                self.project_values(&map, &sides.1)
            }
            Node::MultiSelectList(nodes) => self.multi_select(nodes, current),
            Node::MultiSelectHash(_) => refused("a map made of several values has no translation"),
            Node::Expref(_) => refused("`&` is translated only as an argument of `map` and the like"),
            Node::Slice(_) => refused("slices have no translation; write the list that is meant"),
            Node::Function(None, _) | Node::Empty => refused("the expression is always an error"),
        }
    }

    fn field(&mut self, name: &str, current: Current<'_>) -> Result<Value, Refusal> {
        match current {
            Current::Root => self.root(name),
            Current::Value(value) => match &value.ty {
                Type::Request if value.plain().as_str() == "request" => self.request_field(name),
                Type::Request => Ok(Self::request_part_field(value, name)),
                // CEL's library has a shorter name.
                Type::ImageData if name == "configData" => Ok(value.field("config")),
                Type::Any => Ok(value.field(name)),
                ty if ty.is_map() => Ok(value.field(name)),
                // JMESPath has no word for null: people write a field that nothing has.
                _ if name == "null" && !value.fails => Value::literal(&Data::Null),
                _ => refused(format!(
                    "`{name}` is a field of something that is not a map, which is always null"
                )),
            },
        }
    }

    /// What is behind a dot or a pipe, applied to what is before it.
    fn behind(&mut self, left: &Value, right: &Node) -> Result<Value, Refusal> {
        match right {
            Node::Field(_) | Node::Index(_) | Node::Current | Node::Identity => self.node(right, Current::Value(left)),
            Node::Subexpression(sides) | Node::IndexExpression(sides) if !has_function(&sides.0) => {
                let inner = self.behind(left, &sides.0)?;
                match (right, &sides.1) {
                    (Node::Subexpression(_), right) => self.behind(&inner, right),
                    (_, Node::Index(index)) if !inner.drops_nulls => Ok(inner.index(*index)),
                    _ => refused("slices have no translation; write the list that is meant"),
                }
            }
            _ if left.is_always_present() || is_list_step(right) => self.node(right, Current::Value(left)),
            // Defaults and comparisons see null.
            Node::Or(_) | Node::Comparator(..) | Node::Not(_) | Node::And(_) | Node::Pipe(_) => {
                self.node(right, Current::Value(left))
            }
            _ => {
                let plain = self.node(right, Current::Value(&left.assumed()))?;
                if left.missing == Missing::Null {
                    // A function refuses null, and so does CEL.
                    let mut value = plain.assumed();
                    value.fails = true;
                    return Ok(value);
                }
                let (_, variable) = self.names.scope.enter("value");
                let inner = Value::new(Expr::primary(variable.clone()), left.ty.clone());
                let made = self.node(right, Current::Value(&inner))?;
                let optional = left
                    .as_optional()
                    .call("optMap", [Expr::primary(variable), made.plain().clone()]);
                let mut value = Value::optional(plain.plain().clone(), optional, plain.ty.clone());
                value.missing = Missing::Error;
                value.fails = plain.fails;
                Ok(value)
            }
        }
    }

    /// `images.containers.*.registry`.
    fn image_part(&mut self, node: &Node) -> Result<Option<Value>, Refusal> {
        if let Node::ValueProjection(sides) = node
            && let (Node::Subexpression(path), Node::Field(part)) = (&sides.0, &sides.1)
            && let (Node::Field(images), Node::Field(list)) = (&path.0, &path.1)
            && &**images == "images"
            && self.names.scope.value("images").is_none()
        {
            return self.images(list, part).map(Some);
        }
        Ok(None)
    }

    /// `left || right`, both null where a key is missing.
    fn or(left: Value, right: Value) -> Result<Value, Refusal> {
        if let Some(literal) = &left.literal {
            let is_false = match literal {
                Data::Null | Data::Bool(false) => true,
                Data::String(text) => text.is_empty(),
                Data::List(items) => items.is_empty(),
                Data::Map(entries) => entries.is_empty(),
                _ => false,
            };
            return Ok(if is_false { right } else { left });
        }
        if left.is_always_present() && !left.ty.can_be_false() {
            return Ok(left);
        }
        let fails = left.fails || right.fails;
        // An empty list or map is as good as a missing one.
        let is_empty = |data: &Data| match data {
            Data::List(items) => items.is_empty(),
            Data::Map(entries) => entries.is_empty(),
            Data::String(text) => text.is_empty(),
            _ => false,
        };
        if let Some(literal) = right.literal.as_ref().filter(|literal| is_empty(literal)) {
            let same = matches!(
                (&left.ty, literal),
                (Type::List { .. } | Type::Any, Data::List(_))
                    | (Type::Map(_) | Type::Object(_) | Type::Any, Data::Map(_))
                    | (Type::Text(_) | Type::Any | Type::IntOrText, Data::String(_))
            );
            let mut value = Value::new(left.or_else(right.plain()), left.ty.clone());
            if left.ty == Type::Any {
                value.ty = right.ty.clone();
            }
            if let Type::List { nonempty, .. } = &mut value.ty {
                *nonempty = false;
            }
            if let Type::Text(text) = &mut value.ty {
                text.nonempty = false;
                text.quantity = false;
                text.choices.clear();
            }
            value.fails = fails;
            value.drops_nulls = left.drops_nulls;
            value.hint.clone_from(&left.hint);
            if same {
                return Ok(value);
            }
            if left.ty.is_list() && matches!(literal, Data::String(_)) && !left.drops_nulls {
                let mut value = Value::new(left.list_or_empty(), left.ty.clone()).failing_if(fails);
                value.or_empty_text = true;
                value.hint.clone_from(&left.hint);
                return Ok(value);
            }
        }
        Self::or_value(&left, &right, fails)
    }

    fn or_value(left: &Value, right: &Value, fails: bool) -> Result<Value, Refusal> {
        let is_null = right.literal.as_ref().is_some_and(Data::is_null);
        let compatible = is_null
            || std::mem::discriminant(&left.ty) == std::mem::discriminant(&right.ty)
            || left.ty == Type::Any
            || (left.ty.is_number() && right.ty.is_number());
        if left.ty == Type::Bool && right.ty == Type::Bool && right.is_always_present() {
            let mut value = Value::new(Expr::any([left.truth(), right.truth()]), Type::Bool);
            value.fails = fails;
            return Ok(value);
        }
        if !compatible && !(left.ty == Type::IntOrText) {
            return refused("the two sides of `||` are of different types");
        }
        let ty = if left.ty == right.ty || left.ty.is_number() || is_null {
            left.ty.clone()
        } else {
            match (&left.ty, &right.ty) {
                (Type::Text(own), Type::Text(other)) => Type::Text(super::types::Text {
                    nonempty: other.nonempty,
                    plain: own.plain && other.plain,
                    ..super::types::Text::default()
                }),
                _ => Type::Any,
            }
        };
        let left_optional = if left.ty.can_be_false() {
            let zero = match &left.ty {
                Type::List { .. } => Some(Expr::list([])),
                Type::Map(_) | Type::Object(_) => Some(Expr::primary("{}")),
                Type::Text(_) | Type::Any | Type::IntOrText => Some(Expr::string("")),
                _ => None,
            };
            let Some(zero) = zero else {
                return refused("the type of the value before `||` decides, and is not known");
            };
            if left.ty == Type::IntOrText {
                // Zero is a value, an empty text is not.
                if is_null || !right.is_always_present() {
                    return refused("the right side of `||` may be missing");
                }
                let text = left.or_else(&zero);
                let chosen = text.relation("==", &zero).choose(right.plain(), &text);
                return Ok(Value::new(chosen, Type::IntOrText).failing_if(fails));
            }
            Expr::function("optional.ofNonZeroValue", [left.or_else(&zero)])
        } else {
            left.as_optional()
        };
        let mut value = if is_null {
            Value::optional(left_optional.call("value", []), left_optional, ty)
        } else if right.is_always_present() {
            Value::new(left_optional.call("orValue", [right.plain().clone()]), ty)
        } else {
            let both = left_optional.call("or", [right.as_optional()]);
            Value::optional(both.call("value", []), both, ty)
        };
        value.fails = fails;
        Ok(value)
    }

    /// A comparison; a missing side is null.
    fn compare(comparator: Comparator, left: &Value, right: &Value) -> Result<Value, Refusal> {
        let fails = left.fails || right.fails;
        let mut value = match comparator {
            Comparator::Equal => Value::new(equal(left, right)?, Type::Bool),
            Comparator::NotEqual => Value::new(equal(left, right)?.negate(), Type::Bool),
            _ => {
                if !left.ty.is_number() && left.ty != Type::Any || !right.ty.is_number() && right.ty != Type::Any {
                    return refused("only numbers have an order, everything else is null");
                }
                let operator = match comparator {
                    Comparator::Less => "<",
                    Comparator::LessOrEqual => "<=",
                    Comparator::Greater => ">",
                    _ => ">=",
                };
                let expr = left.plain().relation(operator, right.plain());
                if left.is_always_present() && right.is_always_present() {
                    Value::new(expr, Type::Bool)
                } else {
                    Value::if_present(expr, Type::Bool, Expr::all([left.present(), right.present()]))
                }
            }
        };
        value.fails = fails;
        Ok(value)
    }
}

/// Whether two values are equal; null equals null.
fn equal(left: &Value, right: &Value) -> Result<Expr, Refusal> {
    if left.drops_nulls || right.drops_nulls {
        return refused("the list may have nulls, which count in JMESPath");
    }
    let (value, literal) = match (&left.literal, &right.literal) {
        (None, Some(literal)) => (left, literal),
        (Some(literal), None) => (right, literal),
        (Some(left), Some(right)) => return Ok(Expr::bool(left.with_doubles() == right.with_doubles())),
        (None, None) if left.is_always_present() && right.is_always_present() => {
            return Ok(left.plain().relation("==", right.plain()));
        }
        (None, None) => return Ok(left.as_optional().relation("==", &right.as_optional())),
    };
    let (constant, ()) = (Value::literal(literal)?, ());
    Ok(match (literal, &value.ty) {
        (Data::Null, _) => value.present().negate(),
        (Data::Bool(wanted), Type::Bool) => {
            let read = value.or_else(&Expr::bool(!wanted));
            if *wanted { read } else { read.negate() }
        }
        (_, _) if value.is_always_present() => value.plain().relation("==", constant.plain()),
        (Data::String(text), Type::Text(_)) if !text.is_empty() => {
            value.or_else(&Expr::string("")).relation("==", constant.plain())
        }
        (Data::List(items), _) if !items.is_empty() => value.list_or_empty().relation("==", constant.plain()),
        _ => Expr::all([value.present(), value.plain().relation("==", constant.plain())]),
    })
}

fn has_function(node: &Node) -> bool {
    match node {
        Node::Function(..) => true,
        Node::Subexpression(sides) | Node::IndexExpression(sides) => has_function(&sides.0) || has_function(&sides.1),
        _ => false,
    }
}

/// Whether a node begins with a list of which a missing one has no elements.
fn is_list_step(node: &Node) -> bool {
    match node {
        Node::Projection(sides) | Node::ValueProjection(sides) => !has_function(&sides.0),
        Node::FilterProjection(parts) => !has_function(&parts.0),
        Node::Flatten(list) => !has_function(list),
        Node::MultiSelectList(_) => true,
        _ => false,
    }
}
