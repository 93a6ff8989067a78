//! Which fields a mutation writes, read from its expression and the schema of the kind.
//!
//! The result says more than the paths: of what is read here, both engines accept and refuse the same values, and decode them to
//! the same ones. Upstream counterparts: the conversion of patched objects by Kyverno's webhook and by the API server's
//! mutating phase, which differ for unknown fields, numbers, quantities and times.

use kyvtest_cel::{
    admission::PatchKind,
    ast::{Ast, Comprehension, Expr, ExprId, Literal, StructField},
    profile::Profile,
    syntax::parse,
};
use kyvtest_go_compat::text::quantity::Quantity;
use kyvtest_normalise::schema::{Shape, Type};

/// How deep expressions and schemas are followed.
const DEPTH: usize = 60;

/// The step of any key.
const ANY: &str = "*";

/// A step into a list.
const ITEM: &str = "[]";

/// What is written to an object.
#[derive(Debug, Default)]
pub(super) struct Writes {
    paths: Vec<Vec<String>>,
    /// Whether a value is known only at run time, and is not merged by a schema.
    has_unchecked: bool,
}

impl Writes {
    /// Whether only labels and annotations are written.
    pub(super) fn is_metadata(&self) -> bool {
        self.paths.iter().all(|path| {
            let mut steps = path.iter().map(String::as_str);
            steps.next() == Some("metadata") && matches!(steps.next(), Some("labels" | "annotations"))
        })
    }

    /// Whether single labels and annotations are written, with texts: decoding changes nothing then.
    pub(super) fn is_plain_metadata(&self) -> bool {
        self.is_metadata() && !self.has_unchecked && self.paths.iter().all(|path| path.len() == 3)
    }

    pub(super) fn has_lists(&self) -> bool {
        self.paths.iter().any(|path| path.iter().any(|step| step == ITEM))
    }

    /// Whether something below a field of the object is written.
    pub(super) fn touches(&self, field: &str) -> bool {
        self.paths
            .iter()
            .any(|path| path.first().is_some_and(|first| first == field))
    }
}

type Read = Result<(), String>;

/// Reads what a mutation writes.
///
/// # Errors
/// Why nothing is known of it.
pub(super) fn writes(kind: PatchKind, text: &str, root: Type) -> Result<Writes, String> {
    let Ok(ast) = parse(text, &Profile::kubernetes().syntax) else {
        return Err("a mutation that cannot be parsed".to_owned());
    };
    let mut reader = Reader {
        ast: &ast,
        writes: Writes::default(),
        depth: 0,
    };
    match kind {
        PatchKind::ApplyConfiguration => reader.configuration(ast.root(), root)?,
        PatchKind::JsonPatch => reader.operations(ast.root(), root)?,
    }
    Ok(reader.writes)
}

struct Reader<'a> {
    ast: &'a Ast,
    writes: Writes,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Read) -> Read {
        if self.depth > DEPTH {
            return Err("an expression that is nested too deeply".to_owned());
        }
        self.depth += 1;
        let read = inner(self);
        self.depth -= 1;
        read
    }

    /// The expressions of both branches of `a ? b : c`.
    fn branches(&self, id: ExprId) -> Option<[ExprId; 2]> {
        match self.ast.expr(id) {
            Expr::Call { function, args, .. } if &**function == "_?_:_" => match args.as_slice() {
                [_, yes, no] => Some([*yes, *no]),
                _ => None,
            },
            _ => None,
        }
    }

    /// The elements of a list that is written out, or made by `map`.
    fn elements(&self, id: ExprId) -> Option<Vec<ExprId>> {
        match self.ast.expr(id) {
            Expr::List { elements, optional } if optional.is_empty() => Some(elements.clone()),
            Expr::Call { function, args, .. } if &**function == "_+_" => {
                let parts: Option<Vec<Vec<ExprId>>> = args.iter().map(|id| self.elements(*id)).collect();
                parts.map(|parts| parts.concat())
            }
            Expr::Comprehension(fold) => self.mapped(fold),
            _ => None,
        }
    }

    /// The element of `list.map(x, element)`, with or without a filter.
    fn mapped(&self, fold: &Comprehension) -> Option<Vec<ExprId>> {
        let is_accumulator = |id: ExprId| matches!(self.ast.expr(id), Expr::Ident(name) if *name == fold.accu_var);
        let added = |id: ExprId| match self.ast.expr(id) {
            Expr::Call { function, args, .. } if &**function == "_+_" => match args.as_slice() {
                [first, second] if is_accumulator(*first) => match self.ast.expr(*second) {
                    Expr::List { elements, optional } if optional.is_empty() => Some(elements.clone()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        if !is_accumulator(fold.result) {
            return None;
        }
        match self.branches(fold.loop_step) {
            Some([yes, no]) if is_accumulator(no) => added(yes),
            Some(_) => None,
            None => added(fold.loop_step),
        }
    }

    fn configuration(&mut self, id: ExprId, root: Type) -> Read {
        if let Some(branches) = self.branches(id) {
            return branches
                .into_iter()
                .try_for_each(|branch| self.deeper(|reader| reader.configuration(branch, root)));
        }
        match self.ast.expr(id) {
            Expr::Struct { type_name, fields } if &**type_name == "Object" => {
                self.fields(fields, &Shape::Struct(root), &[])
            }
            _ => Err("an ApplyConfiguration that is not written as `Object{…}`".to_owned()),
        }
    }

    fn fields(&mut self, fields: &'a [StructField], shape: &Shape, path: &[String]) -> Read {
        for field in fields {
            let inner = below(shape, &field.name, path)?;
            let mut own = path.to_vec();
            own.push(field.name.to_string());
            let value = field.value;
            self.deeper(|reader| reader.merged(value, &inner, &own))?;
        }
        Ok(())
    }

    /// A value that is merged by the schema: the schema accepts texts and booleans alike for both engines.
    fn merged(&mut self, id: ExprId, shape: &Shape, path: &[String]) -> Read {
        if let Some(branches) = self.branches(id) {
            return branches
                .into_iter()
                .try_for_each(|branch| self.deeper(|reader| reader.merged(branch, shape, path)));
        }
        let ast = self.ast;
        match ast.expr(id) {
            Expr::Struct { fields, .. } => return self.fields(fields, shape, path),
            Expr::Map(entries) => {
                for entry in entries {
                    let key = match ast.expr(entry.key) {
                        Expr::Literal(Literal::String(key)) => key.to_string(),
                        _ => ANY.to_owned(),
                    };
                    let inner = below(shape, &key, path)?;
                    let mut own = path.to_vec();
                    own.push(key);
                    let value = entry.value;
                    self.deeper(|reader| reader.merged(value, &inner, &own))?;
                }
                return Ok(());
            }
            _ => {}
        }
        if let (Some(elements), Shape::List(item)) = (self.elements(id), shape) {
            let mut own = path.to_vec();
            own.push(ITEM.to_owned());
            return elements
                .into_iter()
                .try_for_each(|element| self.deeper(|reader| reader.merged(element, item, &own)));
        }
        let mut path = path.to_vec();
        let known = match shape {
            Shape::Text | Shape::Bool => true,
            Shape::List(item) | Shape::Map(item) if matches!(**item, Shape::Text | Shape::Bool) => {
                path.push(if matches!(shape, Shape::List(_)) { ITEM } else { ANY }.to_owned());
                true
            }
            Shape::Int(low, high) => match self.number(id) {
                Some(number) => (*low..=*high).contains(&number),
                None => false,
            },
            Shape::IntOrString => {
                self.number(id).is_some_and(|number| i32::try_from(number).is_ok()) || self.text(id).is_some()
            }
            Shape::Quantity => self.text(id).is_some_and(|text| Quantity::parse(text).is_ok()),
            _ => false,
        };
        if !known {
            return Err(format!(
                "the value of `{}` is known only at run time (M17, M18)",
                path.join(".")
            ));
        }
        self.writes.paths.push(path);
        Ok(())
    }

    fn number(&self, id: ExprId) -> Option<i64> {
        match self.ast.expr(id) {
            Expr::Literal(Literal::Int(number)) => Some(*number),
            _ => None,
        }
    }

    fn text(&self, id: ExprId) -> Option<&'a str> {
        match self.ast.expr(id) {
            Expr::Literal(Literal::String(text)) => Some(text),
            _ => None,
        }
    }

    fn operations(&mut self, id: ExprId, root: Type) -> Read {
        if let Some(branches) = self.branches(id) {
            return branches
                .into_iter()
                .try_for_each(|branch| self.deeper(|reader| reader.operations(branch, root)));
        }
        let ast = self.ast;
        if let Expr::Call { function, args, .. } = ast.expr(id)
            && &**function == "_+_"
        {
            return args
                .iter()
                .try_for_each(|part| self.deeper(|reader| reader.operations(*part, root)));
        }
        let Some(elements) = self.elements(id) else {
            return Err("a JSONPatch that is not written as a list of `JSONPatch{…}`".to_owned());
        };
        for element in elements {
            match ast.expr(element) {
                Expr::Struct { type_name, fields } if &**type_name == "JSONPatch" => self.operation(fields, root)?,
                _ => return Err("a JSONPatch that is not written as a list of `JSONPatch{…}`".to_owned()),
            }
        }
        Ok(())
    }

    fn operation(&mut self, fields: &'a [StructField], root: Type) -> Read {
        let field = |name: &str| fields.iter().find(|field| &*field.name == name);
        let op = field("op").and_then(|field| self.text(field.value)).unwrap_or_default();
        if !matches!(op, "add" | "replace" | "remove" | "test") || fields.iter().any(|field| field.optional) {
            return Err("an operation other than add, replace, remove and test".to_owned());
        }
        let mut written = String::new();
        let known = field("path").is_some_and(|field| self.path(field.value, &mut written));
        let Some(rest) = written.strip_prefix('/').filter(|_| known) else {
            return Err("the path of an operation is known only at run time".to_owned());
        };
        let mut shape = Shape::Struct(root);
        let mut path: Vec<String> = Vec::new();
        for step in rest.split('/') {
            let step = if step.contains(DYNAMIC) {
                ANY.to_owned()
            } else {
                step.replace("~1", "/").replace("~0", "~")
            };
            let inner = below(&shape, &step, &path)?;
            path.push(if matches!(shape, Shape::List(_)) {
                ITEM.to_owned()
            } else {
                step
            });
            shape = inner;
        }
        if op == "test" {
            return Ok(());
        }
        if let Some(value) = field("value") {
            let value = value.value;
            self.writes.has_unchecked |= self.text(value).is_none();
            self.deeper(|reader| reader.decoded(value, &shape, &path))?;
        }
        self.writes.has_unchecked |= op == "remove";
        self.writes.paths.push(path);
        Ok(())
    }

    /// Writes a path out; parts that are known only at run time, and have no `/` in them, are marked.
    fn path(&self, id: ExprId, out: &mut String) -> bool {
        match self.ast.expr(id) {
            Expr::Literal(Literal::String(text)) => {
                out.push_str(text);
                !text.contains(DYNAMIC)
            }
            Expr::Call { function, args, .. } if &**function == "_+_" => args.iter().all(|part| self.path(*part, out)),
            Expr::Call { function, .. } if function.ends_with("escapeKey") => {
                out.push(DYNAMIC);
                true
            }
            _ => false,
        }
    }

    /// A value that is decoded: both engines refuse a value of the wrong type, but only one an unknown field.
    fn decoded(&mut self, id: ExprId, shape: &Shape, path: &[String]) -> Read {
        let ast = self.ast;
        let is_plain = |shape: &Shape| !matches!(shape, Shape::Struct(_) | Shape::List(_) | Shape::Map(_) | Shape::Any);
        match (ast.expr(id), shape) {
            (Expr::Map(entries), Shape::Struct(_) | Shape::Map(_)) => {
                for entry in entries {
                    let Expr::Literal(Literal::String(key)) = ast.expr(entry.key) else {
                        return Err("a key that is known only at run time".to_owned());
                    };
                    let inner = below(shape, key, path)?;
                    let mut own = path.to_vec();
                    own.push(key.to_string());
                    let value = entry.value;
                    self.deeper(|reader| reader.decoded(value, &inner, &own))?;
                }
                Ok(())
            }
            (Expr::List { elements, .. }, Shape::List(item)) => elements
                .iter()
                .try_for_each(|element| self.deeper(|reader| reader.decoded(*element, item, path))),
            (Expr::Struct { .. }, _) => Err("an `Object` in a JSONPatch".to_owned()),
            (_, shape) if is_plain(shape) => Ok(()),
            (_, Shape::List(item) | Shape::Map(item)) if is_plain(item) => Ok(()),
            _ => Err(format!(
                "the value of `{}` may have unknown fields (M14)",
                path.join(".")
            )),
        }
    }
}

/// Marks what is known only at run time in a path.
const DYNAMIC: char = '\u{0}';

/// The fields of `metadata` that policies may write without touching the identity of the object.
const METADATA: [&str; 3] = ["labels", "annotations", "finalizers"];

/// What is below a place.
fn below(shape: &Shape, step: &str, path: &[String]) -> Result<Shape, String> {
    let known = match (path, step) {
        ([], "apiVersion" | "kind") => None,
        ([first], step) if first == "metadata" && !METADATA.contains(&step) => None,
        _ => match shape {
            Shape::Struct(of) => of.field(step, true).map(|field| field.shape),
            Shape::Map(item) | Shape::List(item) => Some((**item).clone()),
            _ => None,
        },
    };
    known.ok_or_else(|| {
        let steps: Vec<&str> = path.iter().map(String::as_str).chain([step]).collect();
        format!(
            "`{}` is not a field that both engines write alike (M14, M15)",
            steps.join(".")
        )
    })
}
