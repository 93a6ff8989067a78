//! Lists of a strategic merge: merged by a key, patched element by element, or replaced.
//!
//! Upstream counterpart: `walkList` of `pkg/engine/mutate/patch/strategicPreprocessing.go` and kyaml's associative lists (Kyverno
//! 1.19). A strategic merge puts the elements that it patches first, in the order of the patch; an apply configuration leaves
//! them where they are, so a JSON patch behind it puts them in order.

use kyvtest_go_compat::value::Data;
use kyvtest_pattern::{Anchor, AnchorKind};

use super::{
    anchors::{conditions_of, has_anchor, has_any_anchor, has_condition, is_added, loop_key, loop_name},
    foreach::looped,
    overlay::{Around, Entries, Walker, refused, word},
    place::Place,
    pointer::operation,
};
use crate::{
    Expr, Refusal, Subject, literal, pattern,
    query::{Missing, Value},
};

impl Walker<'_, '_> {
    pub(super) fn list(
        &mut self,
        items: &[Data],
        place: &Place<'_>,
        around: Option<&Around>,
    ) -> Result<Option<(Expr, bool)>, Refusal> {
        let path = place.steps.join(".");
        let keys = place.merged_keys()?.filter(|_| place.value.is_some());
        let items: Vec<&Data> = items
            .iter()
            .filter(|item| !has_anchor(item, AnchorKind::Global))
            .collect();
        if items.is_empty() {
            return Ok(None);
        }
        let Some(keys) = keys else {
            return self.whole_list(&items, place);
        };
        let [key] = keys.as_slice() else {
            return refused(format!(
                "`{path}` is merged by several keys or by its values, which only a strategic merge does; patch it by hand"
            ));
        };
        if place.applied_keys()? != [key.to_owned()] {
            return refused(format!(
                "`{path}` is merged by `{key}`, but not in an apply configuration; patch it by hand"
            ));
        }
        self.out.replaces |= place.element(None, place.pointer.clone()).is_atomic()?;
        let (looped, named): (Vec<&Data>, Vec<&Data>) = items
            .into_iter()
            .partition(|item| self.is_loop(item, place) || has_any_anchor(item));
        if looped.len() > 1 {
            return refused(format!(
                "several elements of `{path}` have conditions, of which Kyverno mixes up the results"
            ));
        }
        let mut made = Vec::new();
        let mut literals = Vec::new();
        for item in named {
            let (own, expr) = self.named(item, key, place)?;
            literals.push(own);
            made.push(expr);
        }
        let fixed = (!made.is_empty()).then(|| Expr::list(made));
        let mut partial = None;
        let looped = match looped.first() {
            Some(item) => self.elements(item, key, place, &literals, &mut partial)?,
            None => None,
        };
        if !literals.is_empty() || partial.is_some() {
            self.arrange(place, key, &literals, partial.as_ref(), around)?;
        }
        Ok(match (fixed, looped) {
            (fixed, None) => fixed.map(|list| (list, false)),
            (None, looped) => looped,
            (Some(fixed), Some((looped, false))) => Some((fixed.sum("+", &looped), false)),
            (Some(fixed), Some((looped, true))) => {
                let looped = looped.call("orValue", [Expr::list([])]);
                Some((fixed.sum("+", &looped), false))
            }
        })
    }

    /// A list that replaces the one that is there.
    fn whole_list(&mut self, items: &[&Data], place: &Place<'_>) -> Result<Option<(Expr, bool)>, Refusal> {
        if items.iter().any(|item| has_condition(item)) {
            return refused(format!(
                "conditions in `{}`, which is replaced as a whole, have no effect",
                place.steps.join(".")
            ));
        }
        if !place.is_atomic()? && place.value.is_some() {
            return refused(format!(
                "`{}` is replaced by a strategic merge and merged by an apply configuration; write a JSON patch by hand",
                place.steps.join(".")
            ));
        }
        self.out.replaces |= place.is_atomic()?;
        let element = place.element(None, place.pointer.raw("-"));
        let mut made = Vec::new();
        for item in items {
            if let Some((expr, false)) = self.value(item, &element, None)? {
                made.push(expr);
            } else {
                return refused("an element of a list that may be missing");
            }
        }
        Ok(Some((Expr::list(made), false)))
    }

    /// An element that is named by a constant or a variable, and its name.
    fn named(&mut self, item: &Data, key: &str, place: &Place<'_>) -> Result<(Expr, Expr), Refusal> {
        let path = place.steps.join(".");
        let Some(entries) = item.as_map() else {
            return refused(format!("an element of `{path}` is not a map, which empties the list"));
        };
        let Some(own) = entries.get(key).filter(|own| !own.is_null()) else {
            return refused(format!("an element of `{path}` has no `{key}`, which empties the list"));
        };
        let own = literal::scalar(own, self.names)?;
        if has_null(item) {
            return refused(format!("a null in an element of `{path}`; write a JSON patch by hand"));
        }
        let element = place.element(None, place.pointer.raw("-"));
        let Some(made) = self.configuration(entries, &element, None)? else {
            return refused("an empty element");
        };
        Ok((own.plain().clone(), made))
    }

    /// Whether an element of a patch is the element of the `foreach` around it.
    fn is_loop(&self, item: &Data, place: &Place<'_>) -> bool {
        let Some(element) = &self.element else { return false };
        element.list.path.as_ref() == Some(&place.steps) && loop_name(item).is_some()
    }

    /// The elements that are there, patched: all, or those that meet conditions.
    fn elements(
        &mut self,
        item: &Data,
        key: &str,
        place: &Place<'_>,
        literals: &[Expr],
        partial: &mut Option<Expr>,
    ) -> Result<Option<(Expr, bool)>, Refusal> {
        let path = place.steps.join(".");
        let (Some(before), Some(entries)) = (&place.value, item.as_map()) else {
            return Ok(None);
        };
        if key != "name" {
            return refused(format!(
                "the elements of `{path}` have no `name`, without which conditions have no effect"
            ));
        }
        let of_loop = self.is_loop(item, place);
        let (scope, variable, mut filters, always) = match self.element.take_if(|_| of_loop) {
            Some(element) => {
                let filters = element.filter.into_iter().collect();
                let always = element.list.missing != Missing::Null;
                looped(&element.list)?;
                (self.names.scope.clone(), element.variable, filters, always)
            }
            None => {
                let (scope, variable) = self.names.scope.enter(&word(before));
                (scope, variable, Vec::new(), before.is_always_present())
            }
        };
        let mut entries = entries.clone();
        if of_loop {
            entries.retain(|name, _| loop_key(name) != "name");
        }
        let item = Data::Map(entries.clone().into());
        let list = before.assumed();
        let element = list.element(&variable);
        let own = Subject {
            expr: Expr::primary(variable.clone()),
            path: element.path.clone(),
        };
        for condition in conditions_of(&item)? {
            filters.push(pattern::translate(&condition, &own, &scope)?);
        }
        let name = Expr::primary(variable.clone()).field("name");
        if of_loop {
            // An element to which nothing is added stays where it is.
            let own = place.element(Some(element.clone()), place.pointer.clone());
            filters.extend(additions(&entries, &own).map(Expr::any));
        }
        if !literals.is_empty() {
            filters.push(name.relation("in", &Expr::list(literals.iter().cloned())).negate());
        }
        let filter = Expr::all(filters);
        entries.retain(|key, _| &**key != "name");
        let decided = has_anchor(&item, AnchorKind::AddIfNotPresent);
        let pointer = place.pointer.raw("*");
        let mut inner = place.element(Some(element.clone()), pointer);
        if decided && !of_loop {
            inner.decider = Some(self.decider(&list, &variable, &filter, place));
        }
        let by_first = of_loop || !filter.is_bool(true);
        if decided && by_first && entries.keys().any(|key| is_added(key)) {
            return refused(format!(
                "`+()` at the top of an element of `{path}` is decided by the first element"
            ));
        }
        let around = Around {
            list: before.plain().clone(),
            variable: variable.clone(),
            pointer: place.pointer.clone(),
            partial: !filter.is_bool(true),
        };
        let names = std::mem::replace(&mut self.names.scope, scope);
        let made = self.configuration(&entries, &inner, Some(&around));
        self.names.scope = names;
        let Some(made) = made? else { return Ok(None) };
        let made = with_name(&made, &place.type_name, &name);
        let loop_variable = Expr::primary(variable.clone());
        let mut over = before.plain().clone();
        if !filter.is_bool(true) && literals.is_empty() {
            // Which elements are patched is found out before the first of them changes.
            let all = if always { over.clone() } else { before.list_or_empty() };
            let found = all
                .call("filter", [loop_variable.clone(), filter])
                .call("map", [loop_variable.clone(), name.clone()]);
            let patched = self
                .names
                .variables
                .define(&format!("patched{}", capital(place)), found);
            over = over.call("filter", [loop_variable.clone(), name.relation("in", &patched)]);
            *partial = Some(patched);
        } else if !filter.is_bool(true) {
            over = over.call("filter", [loop_variable.clone(), filter]);
        }
        let mapped = over.call("map", [loop_variable, made]);
        if always {
            return Ok(Some((mapped, false)));
        }
        let some = Expr::function("optional.of", [mapped]);
        let value = before.present().choose(&some, &Expr::function("optional.none", []));
        Ok(Some((value, true)))
    }

    /// The element that decides about `+()` for all of them.
    fn decider(&mut self, list: &Value, variable: &str, filter: &Expr, place: &Place<'_>) -> Value {
        let all = list.plain().clone();
        let first = if filter.is_bool(true) {
            list.index(0)
        } else {
            let found = all.call("filter", [Expr::primary(variable), filter.clone()]);
            list.clone().with_plain(found).index(0)
        };
        let note = format!(
            "the first element of `{}` decides for all of them what is missing (`+()`), as Kyverno has it",
            place.steps.join(".")
        );
        if !self.out.notes.contains(&note) {
            self.out.notes.push(note);
        }
        first
    }

    /// Puts the patched elements of a list first, as a strategic merge does.
    fn arrange(
        &mut self,
        place: &Place<'_>,
        key: &str,
        literals: &[Expr],
        partial: Option<&Expr>,
        around: Option<&Around>,
    ) -> Result<(), Refusal> {
        let Some(before) = &place.value else { return Ok(()) };
        let list = before.plain();
        let item = Expr::primary(word(before));
        let own = item.field(key);
        let filtered = |test: Expr| list.call("filter", [item.clone(), test]);
        let value = match (literals, partial) {
            ([], Some(patched)) => {
                let test = own.relation("in", patched);
                filtered(test.clone()).sum("+", &filtered(test.negate()))
            }
            ([one], _) => {
                let test = own.relation("==", one);
                filtered(test.clone()).sum("+", &filtered(test.negated_relation()))
            }
            (several, _) => {
                let wanted = Expr::list(several.iter().cloned());
                let name = Expr::primary("first");
                let first = filtered(own.relation("==", &name)).index(&Expr::int(0));
                let first = wanted.call("map", [name, first]);
                first.sum("+", &filtered(own.relation("in", &wanted).negate()))
            }
        };
        match around {
            None => {
                let patch = Expr::list([operation("replace", &place.pointer, Some(&value))]);
                let always = before.is_always_present() || !literals.is_empty();
                self.order.push(if always {
                    patch
                } else {
                    before.present().choose(&patch, &Expr::list([]))
                });
            }
            Some(around) if !around.partial => {
                let index = Expr::primary(format!("{}Index", around.variable));
                let last = place.steps.last().map_or("", String::as_str);
                if place.steps.iter().filter(|step| *step == "*").count() != 1
                    || place.steps.iter().rev().nth(1).map(String::as_str) != Some("*")
                {
                    return refused(format!("the order of `{}`, deep in a list", place.steps.join(".")));
                }
                let pointer = around.pointer.index(&index).key(last);
                let patch = operation("replace", &pointer, Some(&value));
                let variable = Expr::primary(around.variable.clone());
                let present = variable.field(last).has();
                let args = [index, variable, present, patch];
                self.order.push(around.list.call("transformList", args));
            }
            Some(_) => {
                return refused(format!(
                    "the order of `{}` in those elements that meet conditions",
                    place.steps.join(".")
                ));
            }
        }
        Ok(())
    }
}

/// Of a map that does nothing but add what is missing: that something is missing; `None` if it does more.
fn additions(entries: &Entries, place: &Place<'_>) -> Option<Vec<Expr>> {
    let mut missing = Vec::new();
    for (written, value) in entries {
        match Anchor::parse(written).map(|anchor| (anchor.kind, anchor.key)) {
            Some((AnchorKind::AddIfNotPresent, key)) => {
                missing.push(place.field(key).value?.present().negate());
            }
            Some((AnchorKind::Condition | AnchorKind::Global, _)) => {}
            Some(_) => return None,
            None => missing.extend(additions(value.as_map()?, &place.field(written))?),
        }
    }
    Some(missing)
}

/// The last name of a path, as part of another name.
fn capital(place: &Place<'_>) -> String {
    let last = place.steps.last().map_or("Elements", String::as_str);
    let mut chars = last.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Adds the name to an element.
fn with_name(made: &Expr, type_name: &str, name: &Expr) -> Expr {
    let text = made.as_str();
    let rest = text.strip_prefix(type_name).and_then(|rest| rest.strip_prefix('{'));
    match rest {
        Some(rest) => Expr::primary(format!("{type_name}{{name: {name}, {rest}")),
        None => made.clone(),
    }
}

/// Whether a tree removes something.
fn has_null(data: &Data) -> bool {
    match data {
        Data::Null => true,
        Data::List(items) => items.iter().any(has_null),
        Data::Map(entries) => entries.values().any(has_null),
        _ => false,
    }
}
