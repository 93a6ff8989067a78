//! Conditions on the values at paths below an object, and how they are written in CEL.
//!
//! A path that may end early has a result for that case. If it is the same at every step, the whole path becomes one chain of
//! optional fields with a default; otherwise a step is guarded with `has`.

use super::scalar::Scalar;
use crate::{Expr, names::Variables};

/// A path below an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    root: Expr,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    name: String,
    /// Whether the field is there whenever its parent is.
    always: bool,
    /// Whether the field may be there and null.
    nullable: bool,
}

impl Step {
    fn is_always(&self) -> bool {
        self.always && !self.nullable
    }
}

impl Path {
    pub(crate) const fn new(root: Expr) -> Self {
        Self {
            root,
            steps: Vec::new(),
        }
    }

    /// A field of the value.
    pub(crate) fn field(&self, name: &str, always: bool, nullable: bool) -> Self {
        let mut path = self.clone();
        path.steps.push(Step {
            name: name.to_owned(),
            always,
            nullable,
        });
        path
    }

    /// The name of the last field, for naming its elements.
    pub(crate) fn last(&self) -> Option<&str> {
        self.steps.last().map(|step| step.name.as_str())
    }

    /// The same path, given that the value is there.
    pub(crate) fn present(&self) -> Self {
        let mut path = self.clone();
        for step in &mut path.steps {
            (step.always, step.nullable) = (true, false);
        }
        path
    }

    /// The same path, of which the first steps are those of another one.
    fn after(&self, other: &Self) -> Self {
        let mut path = self.clone();
        for (step, known) in path.steps.iter_mut().zip(&other.steps) {
            (step.always, step.nullable) = (known.always, known.nullable);
        }
        path
    }

    fn parent(&self) -> Self {
        let mut path = self.clone();
        path.steps.pop();
        path
    }

    /// Whether the value is one of the lists of containers of a Pod.
    fn is_containers(&self) -> bool {
        let last = self.last();
        self.steps.len() > 1
            && last.is_some_and(|name| matches!(name, "containers" | "initContainers" | "ephemeralContainers"))
    }

    /// Whether the value is there for sure.
    fn is_always(&self) -> bool {
        self.steps.iter().all(Step::is_always)
    }

    /// Whether a chain of optional fields cannot tell that there is no value, because it may be null.
    fn may_be_null(&self) -> bool {
        self.steps.iter().any(|step| step.nullable)
    }

    /// The value as a plain selection.
    pub(crate) fn plain(&self) -> Expr {
        self.steps
            .iter()
            .fold(self.root.clone(), |value, step| value.field(&step.name))
    }

    /// The value as a chain of optional selections.
    fn chain(&self) -> Expr {
        let mut optional = false;
        self.steps.iter().fold(self.root.clone(), |value, step| {
            optional |= !step.always;
            if optional {
                value.optional(&step.name)
            } else {
                value.field(&step.name)
            }
        })
    }

    /// Whether the value is there, as an expression.
    fn has(&self) -> Expr {
        let Some((last, before)) = self.steps.split_last() else {
            return Expr::bool(true);
        };
        let parent = Self {
            root: self.root.clone(),
            steps: before.to_vec(),
        };
        if parent.may_be_null() || last.nullable {
            let filled = self.plain().relation("!=", &Expr::primary("null"));
            let mut own = self.clone();
            for step in &mut own.steps {
                step.nullable = false;
            }
            return Expr::all([parent.has(), own.has(), filled]);
        }
        if self.is_always() {
            return Expr::bool(true);
        }
        if parent.is_always() {
            let selected = self.plain();
            // `has` needs a field with a name.
            return if selected.as_str().ends_with(']') {
                Expr::string(&last.name).relation("in", &parent.plain())
            } else {
                selected.has()
            };
        }
        self.chain().call("hasValue", [])
    }

    /// The value, or a literal if it is not there.
    fn or(&self, default: &Expr) -> Expr {
        if self.is_always() {
            return self.plain();
        }
        self.chain().call("orValue", [default.clone()])
    }
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cond {
    Known(bool),
    All(Vec<Cond>),
    Any(Vec<Cond>),
    Not(Box<Cond>),
    /// The value at a path, if it is there; otherwise the result is `absent`.
    At {
        path: Path,
        absent: bool,
        test: Test,
    },
    /// Anything else.
    Raw(Expr),
}

/// What is asked of a value that is there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// Nothing more.
    Present,
    Scalar(Scalar),
    /// All elements have a property.
    Each(String, Box<Cond>),
    /// Some element has a property.
    Some(String, Box<Cond>),
    /// A condition on fields of the value.
    Then(Box<Cond>),
}

impl Cond {
    pub(crate) const TRUE: Self = Self::Known(true);
    pub(crate) const FALSE: Self = Self::Known(false);

    pub(crate) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Self::Known(true) => {}
                Self::Known(false) => return Self::FALSE,
                Self::All(inner) => kept.extend(inner),
                part if kept.contains(&part) => {}
                part => kept.push(part),
            }
        }
        match kept.len() {
            0 => Self::TRUE,
            1 => kept.swap_remove(0),
            _ => Self::All(kept),
        }
    }

    pub(crate) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Self::Known(false) => {}
                Self::Known(true) => return Self::TRUE,
                Self::Any(inner) => kept.extend(inner),
                part if kept.contains(&part) => {}
                part => kept.push(part),
            }
        }
        match kept.len() {
            0 => Self::FALSE,
            1 => kept.swap_remove(0),
            _ => Self::Any(kept),
        }
    }

    pub(crate) fn negate(self) -> Self {
        match self {
            Self::Known(known) => Self::Known(!known),
            Self::Not(inner) => *inner,
            Self::At { path, absent, test } => {
                let absent = !absent;
                match test {
                    Test::Scalar(scalar) => Self::At {
                        path,
                        absent,
                        test: Test::Scalar(scalar.negate()),
                    },
                    Test::Each(name, body) => Self::At {
                        path,
                        absent,
                        test: Test::Some(name, Box::new(body.negate())),
                    },
                    Test::Some(name, body) => Self::At {
                        path,
                        absent,
                        test: Test::Each(name, Box::new(body.negate())),
                    },
                    Test::Then(body) => Self::At {
                        path,
                        absent,
                        test: Test::Then(Box::new(body.negate())),
                    },
                    Test::Present => Self::Not(Box::new(Self::At {
                        path,
                        absent: !absent,
                        test: Test::Present,
                    })),
                }
            }
            other => Self::Not(Box::new(other)),
        }
    }

    /// A condition on the fields of a value at a path, which takes for granted that the value is there, and the result if it is
    /// not.
    pub(crate) fn at(path: &Path, absent: bool, inner: Self) -> Self {
        if path.is_always() {
            return inner;
        }
        match inner {
            Self::Known(known) if known == absent => Self::Known(known),
            Self::Known(true) => Self::At {
                path: path.clone(),
                absent: false,
                test: Test::Present,
            },
            Self::Known(false) => Self::at(path, false, Self::TRUE).negate(),
            // One guard in front of all parts.
            Self::All(ref parts) | Self::Any(ref parts) if parts.iter().any(Self::is_raw) => Self::At {
                path: path.clone(),
                absent,
                test: Test::Then(Box::new(inner)),
            },
            Self::All(parts) => Self::all(parts.into_iter().map(|part| Self::at(path, absent, part))),
            Self::Any(parts) => Self::any(parts.into_iter().map(|part| Self::at(path, absent, part))),
            Self::Not(part) => Self::at(path, !absent, *part).negate(),
            Self::At {
                path: below,
                absent: other,
                test,
            } if other == absent || below.steps[path.steps.len()..].iter().all(Step::is_always) => Self::At {
                path: below.after(path),
                absent,
                test,
            },
            inner => Self::At {
                path: path.clone(),
                absent,
                test: Test::Then(Box::new(inner)),
            },
        }
    }

    fn is_raw(&self) -> bool {
        match self {
            Self::Raw(_) => true,
            Self::Not(inner) => inner.is_raw(),
            _ => false,
        }
    }

    /// Puts together what is asked of the elements of several lists of the same parent: of all containers, in one variable.
    pub(crate) fn join_lists(self, variables: &mut Variables) -> Self {
        let parts = match self {
            Self::All(parts) => parts,
            Self::Any(parts) => return Self::any(parts.into_iter().map(|part| part.join_lists(variables))),
            other => return other,
        };
        let mut kept: Vec<Self> = Vec::new();
        let mut joined: Vec<(Path, String, Cond, Vec<Path>, usize)> = Vec::new();
        for part in parts {
            match part {
                Self::At {
                    path,
                    absent,
                    test: Test::Each(name, body),
                } if (absent || path.is_always()) && path.is_containers() && !path.may_be_null() => {
                    let parent = path.parent();
                    match joined
                        .iter_mut()
                        .find(|(p, n, b, ..)| *p == parent && *n == name && *b == *body)
                    {
                        Some((.., lists, _)) => lists.push(path),
                        None => joined.push((parent, name, *body, vec![path], kept.len())),
                    }
                }
                part => kept.push(part.join_lists(variables)),
            }
        }
        for (_, name, body, mut lists, at) in joined.into_iter().rev() {
            let body = Box::new(body);
            let part = if let [path] = lists.as_slice() {
                let path = path.clone();
                let absent = true;
                let test = Test::Each(name, body);
                Self::At { path, absent, test }
            } else {
                lists.sort_by_key(|path| path.last().map(|name| (name != "containers", name != "initContainers")));
                let texts = lists.iter().map(|path| path.or(&Expr::list([])));
                let all = texts.reduce(|sum, list| sum.sum("+", &list));
                let all = variables.define("allContainers", all.unwrap_or_else(|| Expr::list([])));
                let test = Test::Each(name, body);
                let path = Path::new(all);
                let absent = true;
                Self::At { path, absent, test }
            };
            kept.insert(at, part);
        }
        Self::all(kept)
    }

    /// The condition in CEL.
    pub(crate) fn render(&self) -> Expr {
        match self {
            Self::Known(known) => Expr::bool(*known),
            Self::All(parts) => Expr::all(parts.iter().map(Self::render)),
            Self::Any(parts) => Expr::any(parts.iter().map(Self::render)),
            Self::Not(inner) => inner.render().negate(),
            Self::Raw(expr) => expr.clone(),
            Self::At { path, absent, test } => test.render(path, *absent),
        }
    }
}

impl Test {
    fn render(&self, path: &Path, absent: bool) -> Expr {
        // A guard in front: the value is there and passes, or it is not there.
        let guarded = |tested: Expr| {
            if absent {
                Expr::any([path.has().negate(), tested])
            } else {
                Expr::all([path.has(), tested])
            }
        };
        match self {
            Self::Present => path.has(),
            Self::Scalar(scalar) => {
                if path.is_always() {
                    return scalar.render(&path.plain());
                }
                match scalar.default(absent) {
                    Some(default) if !path.may_be_null() => scalar.render(&path.or(&default)),
                    _ => guarded(scalar.render(&path.plain())),
                }
            }
            Self::Each(name, body) | Self::Some(name, body) => {
                let (method, of_none) = match self {
                    Self::Each(..) => ("all", true),
                    _ => ("exists", false),
                };
                let over = |list: Expr| list.call(method, [Expr::primary(name.as_str()), body.render()]);
                if path.is_always() {
                    return over(path.plain());
                }
                let over_chain = over(path.or(&Expr::list([])));
                if absent == of_none && !path.may_be_null() {
                    over_chain
                } else {
                    guarded(over(path.plain()))
                }
            }
            Self::Then(body) => guarded(body.render()),
        }
    }
}
