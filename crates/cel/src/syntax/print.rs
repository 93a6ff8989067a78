//! A compact notation for trees, for tests and debugging.

use std::fmt::Write as _;

use crate::ast::{Ast, Expr, ExprId, Literal};

/// Writes the tree behind `ast` as nested lists, macros expanded:
///
/// ```text
/// (id NAME)  (sel OPERAND FIELD)  (has OPERAND FIELD)
/// (call FUNC @RECEIVER ARG…)  (call FUNC ARG…)
/// (list E…)  (map K:V …)  (struct TYPE FIELD:V …)      "? " before an optional element or entry
/// (comp VAR VAR2 RANGE ACCU INIT COND STEP RESULT)      VAR2 is empty for one variable
/// i42  u42  true  false  null  s<hex of UTF-8>  b<hex>  d<hex of the IEEE-754 bits>
/// ```
pub fn print(ast: &Ast) -> String {
    let mut printer = Printer {
        ast,
        out: String::new(),
        offsets: false,
    };
    printer.node(ast.root());
    printer.out
}

/// Like [`print()`], with the code-point offset of every node and entry as `@N` after it.
pub fn print_with_offsets(ast: &Ast) -> String {
    let mut printer = Printer {
        ast,
        out: String::new(),
        offsets: true,
    };
    printer.node(ast.root());
    printer.out
}

struct Printer<'a> {
    ast: &'a Ast,
    out: String,
    offsets: bool,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn hex(&mut self, prefix: char, bytes: &[u8]) {
        self.out.push(prefix);
        for b in bytes {
            // Writing to a string cannot fail.
            let _ = write!(self.out, "{b:02x}");
        }
    }

    fn child(&mut self, id: ExprId) {
        self.out.push(' ');
        self.node(id);
    }

    fn at(&mut self, offset: u32) {
        if self.offsets {
            let _ = write!(self.out, "@{offset}");
        }
    }

    fn node(&mut self, id: ExprId) {
        match self.ast.expr(id) {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Ident(name) => {
                self.text("(id ");
                self.text(name);
                self.text(")");
            }
            Expr::Select {
                operand,
                field,
                test_only,
            } => {
                self.text(if *test_only { "(has" } else { "(sel" });
                self.child(*operand);
                self.text(" ");
                self.text(field);
                self.text(")");
            }
            Expr::Call { function, target, args } => {
                self.text("(call ");
                self.text(function);
                if let Some(target) = target {
                    self.text(" @");
                    self.node(*target);
                }
                for arg in args {
                    self.child(*arg);
                }
                self.text(")");
            }
            Expr::List { elements, optional } => {
                self.text("(list");
                for (i, element) in elements.iter().enumerate() {
                    if optional.contains(&(i as u32)) {
                        self.text(" ?");
                    }
                    self.child(*element);
                }
                self.text(")");
            }
            Expr::Map(entries) => {
                self.text("(map");
                for entry in entries {
                    self.text(if entry.optional { " ? " } else { " " });
                    self.node(entry.key);
                    self.text(":");
                    self.node(entry.value);
                    self.at(entry.offset);
                }
                self.text(")");
            }
            Expr::Struct { type_name, fields } => {
                self.text("(struct ");
                self.text(type_name);
                for field in fields {
                    self.text(if field.optional { " ? " } else { " " });
                    self.text(&field.name);
                    self.text(":");
                    self.node(field.value);
                    self.at(field.offset);
                }
                self.text(")");
            }
            Expr::Comprehension(fold) => {
                self.text("(comp ");
                self.text(&fold.iter_var);
                self.text(" ");
                self.text(fold.iter_var2.as_deref().unwrap_or_default());
                self.child(fold.iter_range);
                self.text(" ");
                self.text(&fold.accu_var);
                for part in [fold.accu_init, fold.loop_condition, fold.loop_step, fold.result] {
                    self.child(part);
                }
                self.text(")");
            }
        }
        self.at(self.ast.offset(id));
    }

    fn literal(&mut self, literal: &Literal) {
        let _ = match literal {
            Literal::Null => write!(self.out, "null"),
            Literal::Bool(value) => write!(self.out, "{value}"),
            Literal::Int(value) => write!(self.out, "i{value}"),
            Literal::Uint(value) => write!(self.out, "u{value}"),
            Literal::Double(value) => write!(self.out, "d{:x}", value.to_bits()),
            Literal::String(value) => {
                self.hex('s', value.as_bytes());
                Ok(())
            }
            Literal::Bytes(value) => {
                self.hex('b', value);
                Ok(())
            }
        };
    }
}
