//! Lists: projections, filters, flattening, selections of several values.
//!
//! Upstream counterpart: the projections of go-jmespath's `interpreter.go`. A projection of null is null, and leaves out what it
//! makes null.

use kyvtest_jmespath::ast::Node;

use super::{
    types::{Seen, Type},
    value::{Missing, Value},
    walk::{Current, Translator, refused},
};
use crate::{Expr, Refusal};

impl Translator<'_, '_> {
    /// What is made of the elements of a list, of those that fulfil a condition if there is one.
    pub(super) fn project(&mut self, list: &Value, condition: Option<&Node>, made: &Node) -> Result<Value, Refusal> {
        if list.ty == Type::Null {
            return Ok(list.clone());
        }
        if !list.ty.is_list() && list.ty != Type::Any {
            return refused("a projection of something that is not a list is always null");
        }
        let whole = matches!(made, Node::Identity | Node::Current);
        if whole && condition.is_none() {
            // Nulls are left out.
            let mut list = list.clone();
            list.drops_nulls = false;
            return Ok(list);
        }
        let hint = list.hint.as_deref().unwrap_or("item");
        let (inner, variable) = self.names.scope.enter(hint);
        let element = list.element(&variable);
        let mut names = self.names.within(inner);
        let mut translator = Translator {
            names: &mut names,
            marked: self.marked,
        };
        let mut fails = list.fails;
        let test = match condition {
            Some(condition) => {
                let test = translator.node(condition, Current::Value(&element))?;
                if list.drops_nulls && !is_false_on_null(condition) {
                    return refused("the list may have nulls, and the filter may keep them");
                }
                fails |= test.fails;
                Some(test.truth())
            }
            None => None,
        };
        let made = translator.node(made, Current::Value(&element))?;
        fails |= made.fails;
        let variable = Expr::primary(variable);
        let build = |list: &Expr| {
            if whole {
                return list.call("filter", [variable.clone()].into_iter().chain(test.clone()));
            }
            let test = Expr::all(test.clone().into_iter().chain([made.present()]));
            let test = Some(test).filter(|test| !test.is_bool(true));
            let args = [variable.clone()].into_iter().chain(test).chain([made.plain().clone()]);
            list.call("map", args)
        };
        let plain = build(list.plain());
        let ty = Type::list(made.ty.clone());
        let mut value = if list.is_always_present() {
            Value::new(plain, ty)
        } else {
            Value::if_present(plain, ty, list.present()).with_or_empty(build(&list.list_or_empty()))
        };
        value.fails = fails;
        value.hint = if whole { list.hint.clone() } else { made.hint.clone() };
        value.path = if whole { list.path.clone() } else { None };
        Ok(value)
    }

    /// What is made of the values of a map.
    pub(super) fn project_values(&mut self, map: &Value, made: &Node) -> Result<Value, Refusal> {
        if !map.ty.is_map() && map.ty != Type::Any {
            return refused("`*` of something that is not a map is always null");
        }
        if !matches!(made, Node::Identity | Node::Current | Node::Field(_)) {
            // Upstream also applies it to null, once for each entry.
            return refused("behind `*` only a field has a translation");
        }
        let item = match &map.ty {
            Type::Map(value) => (**value).clone(),
            _ => Type::Any,
        };
        let (inner, variable) = self.names.scope.enter("value");
        let element = Value::new(Expr::primary(variable.clone()), item);
        let mut names = self.names.within(inner);
        let mut translator = Translator {
            names: &mut names,
            marked: self.marked,
        };
        let made = translator.node(made, Current::Value(&element))?;
        let build = |map: &Expr| {
            let test = Some(made.present()).filter(|test| !test.is_bool(true));
            let args = [Expr::primary("key"), Expr::primary(variable.clone())];
            map.call(
                "transformList",
                args.into_iter().chain(test).chain([made.plain().clone()]),
            )
        };
        let plain = build(map.plain());
        let ty = Type::list(made.ty.clone());
        let mut value = if map.is_always_present() {
            Value::new(plain, ty)
        } else {
            let or_empty = build(&map.or_else(&Expr::primary("{}")));
            Value::if_present(plain, ty, map.present()).with_or_empty(or_empty)
        };
        value.fails = map.fails || made.fails;
        Ok(value)
    }

    /// `list[]`: the elements of its elements, where those are lists.
    pub(super) fn flatten(&mut self, list: &Node, current: Current<'_>) -> Result<Value, Refusal> {
        match list {
            Node::MultiSelectList(nodes) => return self.joined(nodes, current),
            Node::Subexpression(sides) => {
                if let Node::MultiSelectList(nodes) = &sides.1 {
                    let base = self.node(&sides.0, current)?.or_null();
                    return self.joined(nodes, Current::Value(&base));
                }
            }
            // The whole context is a map: what is written as an empty list is null.
            Node::Current | Node::Identity if matches!(current, Current::Root) => {
                return Value::literal(&kyvtest_go_compat::value::Data::Null);
            }
            _ => {}
        }
        let value = self.node(list, current)?.or_null();
        if !value.ty.is_list() && value.ty != Type::Any {
            return refused("`[]` of something that is not a list is always null");
        }
        let nested = match value.ty.item() {
            Type::List { .. } => true,
            // Lists in the lists of a custom resource: only a projection makes them.
            Type::Any => matches!(
                list,
                Node::Projection(_) | Node::FilterProjection(_) | Node::ValueProjection(_)
            ),
            _ => false,
        };
        if !nested {
            let ty = if value.ty == Type::Any {
                Type::list(Type::Any)
            } else {
                value.ty.clone()
            };
            return Ok(value.with_type(ty));
        }
        let item = value.ty.item().item();
        let plain = value.plain().call("flatten", []);
        let mut flat = if value.is_always_present() {
            Value::new(plain, Type::list(item))
        } else {
            let or_empty = value.list_or_empty().call("flatten", []);
            Value::if_present(plain, Type::list(item), value.present()).with_or_empty(or_empty)
        };
        flat.fails = value.fails;
        flat.hint.clone_from(&value.hint);
        Ok(flat)
    }

    /// `[a, b][]`: the elements of several lists. JMESPath has a null for each list that is missing.
    fn joined(&mut self, nodes: &[Node], current: Current<'_>) -> Result<Value, Refusal> {
        let mut sum: Option<Expr> = None;
        let mut drops_nulls = false;
        let mut item: Option<Type> = None;
        let mut fails = false;
        let mut hint = None;
        let mut path = None;
        for node in nodes {
            let part = self.node(node, current)?;
            if !part.ty.is_list() && part.ty != Type::Any || part.drops_nulls {
                return refused("a list made of several values that are not lists has no translation");
            }
            drops_nulls |= !part.is_always_present();
            fails |= part.fails;
            item = match item {
                None => Some(part.ty.item()),
                Some(item) if item == part.ty.item() => Some(item),
                Some(_) => Some(Type::Any),
            };
            hint = hint.or_else(|| part.hint.clone());
            path = path.or_else(|| part.path.clone());
            let list = part.list_or_empty();
            sum = Some(match sum {
                Some(sum) => sum.sum("+", &list),
                None => list,
            });
        }
        let Some(sum) = sum else {
            return refused("an empty list");
        };
        let containers = hint
            .as_deref()
            .is_some_and(|hint| hint.to_ascii_lowercase().ends_with("container"));
        let is_global = path
            .as_ref()
            .is_some_and(|path: &Vec<String>| !path.iter().any(|step| step == "*"));
        let (expr, hint) = if containers && (is_global || !self.names.scope.is_in_loop()) {
            let name = if self.names.scope.seen() == Seen::Stored {
                "oldContainers"
            } else {
                "allContainers"
            };
            (self.names.variables.define(name, sum), Some("container".to_owned()))
        } else {
            (sum, hint)
        };
        // Ephemeral containers are of a type of their own.
        let item = item.map_or(Type::Any, |item| if containers { container(item) } else { item });
        let mut value = Value::new(expr, Type::list(item));
        value.drops_nulls = drops_nulls;
        value.fails = fails;
        value.hint = hint;
        value.path = path.filter(|_| containers);
        Ok(value)
    }

    /// `[a, b]`: null if the current value is.
    pub(super) fn multi_select(&mut self, nodes: &[Node], current: Current<'_>) -> Result<Value, Refusal> {
        if let Current::Value(value) = current
            && value.missing != Missing::Never
        {
            return refused("a list made of several values of a map that may be missing");
        }
        let mut items = Vec::with_capacity(nodes.len());
        let mut item: Option<Type> = None;
        let mut fails = false;
        for node in nodes {
            let value = self.node(node, current)?;
            if !value.is_always_present() {
                return refused(format!(
                    "`{}` may be missing, which makes a null in the list",
                    value.plain()
                ));
            }
            fails |= value.fails;
            item = Some(match item {
                Some(Type::Text(_)) if value.ty.as_text().is_some() => Type::text(),
                Some(item) if item == value.ty => item,
                Some(item) if item.is_number() && value.ty.is_number() => Type::Number,
                None => value.ty.clone(),
                Some(_) => Type::Any,
            });
            items.push(value.plain().clone());
        }
        let nonempty = !items.is_empty();
        let item = Box::new(item.unwrap_or(Type::Any));
        let mut value = Value::new(Expr::list(items), Type::List { item, nonempty });
        value.fails = fails;
        Ok(value)
    }
}

/// The type of containers of several lists; unknown fields are optional.
fn container(item: Type) -> Type {
    match item {
        Type::Any => Type::any_container(),
        item => item,
    }
}

/// Whether a filter never keeps null: it needs a field that is true, or one that equals something.
fn is_false_on_null(condition: &Node) -> bool {
    match condition {
        Node::Field(_) => true,
        Node::Subexpression(sides) => is_false_on_null(&sides.0),
        Node::Comparator(comparator, sides) => {
            *comparator == kyvtest_jmespath::ast::Comparator::Equal
                && is_false_on_null(&sides.0)
                && matches!(&sides.1, Node::Literal(data) if !data.is_null())
        }
        Node::And(sides) => is_false_on_null(&sides.0) || is_false_on_null(&sides.1),
        _ => false,
    }
}
