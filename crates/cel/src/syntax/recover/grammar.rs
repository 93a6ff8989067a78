//! CEL's grammar as data.
//!
//! Upstream counterpart: cel-go `parser/gen/CEL.g4`, identical in 0.26.0, 0.29.2 and 0.30.0. The order of rules and
//! alternatives matters: predictions prefer the earlier alternative. Left-recursive rules are written as ANTLR rewrites
//! them: a first part, then a loop of operators with their precedence.

use super::super::lexer::Tok;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Rule {
    Start,
    Expr,
    ConditionalOr,
    ConditionalAnd,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    ExprList,
    ListInit,
    FieldInitializerList,
    OptField,
    MapInitializerList,
    EscapeIdent,
    OptExpr,
    Literal,
}

pub(super) const RULE_COUNT: usize = 17;

/// The kind of a parse tree node: the alternative of its rule, or `Plain` if the rule has only one or the parser failed
/// before it could choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    MemberExpr,
    LogicalNot,
    Negate,
    PrimaryExpr,
    Select,
    MemberCall,
    Index,
    Ident,
    GlobalCall,
    Nested,
    CreateList,
    CreateStruct,
    CreateMessage,
    ConstantLiteral,
    SimpleIdentifier,
    EscapedIdentifier,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    BoolTrue,
    BoolFalse,
    Null,
}

/// The role of a part in its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    None,
    Args,
    Cols,
    E,
    E1,
    E2,
    Elems,
    Entries,
    Fields,
    Id,
    Index,
    Keys,
    LeadingDot,
    Op,
    Open,
    Opt,
    Sign,
    Tok,
    Values,
}

/// A part of an alternative.
#[derive(Debug, Clone, Copy)]
pub(super) enum El {
    Tok(Tok, Label),
    /// One of several tokens.
    Set(&'static [Tok], Label),
    /// A rule, with the precedence that a left-recursive one starts with.
    Rule(Rule, i32, Label),
    /// Once or not at all; one token of lookahead decides.
    Optional(&'static [El]),
    /// Any number; `ll1` if one token of lookahead decides.
    Star {
        ll1: bool,
        body: &'static [El],
    },
    /// At least once; `ll1` if one token of lookahead decides.
    Plus {
        ll1: bool,
        body: &'static [El],
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Alt(pub(super) Kind, pub(super) &'static [El]);

/// The body of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// A single alternative.
    Single(&'static [El]),
    /// Alternatives; `ll1` if one token of lookahead decides.
    Choice { ll1: bool, alts: &'static [Alt] },
    /// A left-recursive rule: its first part, then operators with their precedence.
    Recursive {
        first: Alt,
        operators: &'static [(i32, Alt)],
    },
}

use El::{Optional, Plus, Set, Star};

const fn t(tok: Tok) -> El {
    El::Tok(tok, Label::None)
}

const fn l(tok: Tok, label: Label) -> El {
    El::Tok(tok, label)
}

const fn r(rule: Rule, label: Label) -> El {
    El::Rule(rule, 0, label)
}

const QUESTION: El = Optional(&[l(Tok::Question, Label::Opt)]);
const COMMA: El = Optional(&[t(Tok::Comma)]);
const LEADING_DOT: El = Optional(&[l(Tok::Dot, Label::LeadingDot)]);
const IDENT: El = l(Tok::Ident, Label::Id);
const SIGN: El = Optional(&[l(Tok::Minus, Label::Sign)]);
const ARGS: El = Optional(&[r(Rule::ExprList, Label::Args)]);

/// The rules in the order of [`Rule`].
pub(super) static RULES: [Body; RULE_COUNT] = [
    Body::Single(&[r(Rule::Expr, Label::E), t(Tok::Eof)]),
    Body::Single(&[
        r(Rule::ConditionalOr, Label::E),
        Optional(&[
            l(Tok::Question, Label::Op),
            r(Rule::ConditionalOr, Label::E1),
            t(Tok::Colon),
            r(Rule::Expr, Label::E2),
        ]),
    ]),
    Body::Single(&[
        r(Rule::ConditionalAnd, Label::E),
        Star {
            ll1: true,
            body: &[l(Tok::Or, Label::Op), r(Rule::ConditionalAnd, Label::E1)],
        },
    ]),
    Body::Single(&[
        r(Rule::Relation, Label::E),
        Star {
            ll1: true,
            body: &[l(Tok::And, Label::Op), r(Rule::Relation, Label::E1)],
        },
    ]),
    Body::Recursive {
        first: Alt(Kind::Plain, &[r(Rule::Calc, Label::None)]),
        operators: &[(
            1,
            Alt(
                Kind::Plain,
                &[
                    Set(
                        &[
                            Tok::Equals,
                            Tok::NotEquals,
                            Tok::In,
                            Tok::Less,
                            Tok::LessEquals,
                            Tok::GreaterEquals,
                            Tok::Greater,
                        ],
                        Label::Op,
                    ),
                    El::Rule(Rule::Relation, 2, Label::None),
                ],
            ),
        )],
    },
    Body::Recursive {
        first: Alt(Kind::Plain, &[r(Rule::Unary, Label::None)]),
        operators: &[
            (
                2,
                Alt(
                    Kind::Plain,
                    &[
                        Set(&[Tok::Star, Tok::Slash, Tok::Percent], Label::Op),
                        El::Rule(Rule::Calc, 3, Label::None),
                    ],
                ),
            ),
            (
                1,
                Alt(
                    Kind::Plain,
                    &[
                        Set(&[Tok::Minus, Tok::Plus], Label::Op),
                        El::Rule(Rule::Calc, 2, Label::None),
                    ],
                ),
            ),
        ],
    },
    Body::Choice {
        ll1: false,
        alts: &[
            Alt(Kind::MemberExpr, &[r(Rule::Member, Label::None)]),
            Alt(
                Kind::LogicalNot,
                &[
                    Plus {
                        ll1: true,
                        body: &[l(Tok::Exclam, Label::Op)],
                    },
                    r(Rule::Member, Label::None),
                ],
            ),
            Alt(
                Kind::Negate,
                &[
                    Plus {
                        ll1: false,
                        body: &[l(Tok::Minus, Label::Op)],
                    },
                    r(Rule::Member, Label::None),
                ],
            ),
        ],
    },
    Body::Recursive {
        first: Alt(Kind::PrimaryExpr, &[r(Rule::Primary, Label::None)]),
        operators: &[
            (
                3,
                Alt(
                    Kind::Select,
                    &[l(Tok::Dot, Label::Op), QUESTION, r(Rule::EscapeIdent, Label::Id)],
                ),
            ),
            (
                2,
                Alt(
                    Kind::MemberCall,
                    &[
                        l(Tok::Dot, Label::Op),
                        IDENT,
                        l(Tok::LParen, Label::Open),
                        ARGS,
                        t(Tok::RParen),
                    ],
                ),
            ),
            (
                1,
                Alt(
                    Kind::Index,
                    &[
                        l(Tok::LBracket, Label::Op),
                        QUESTION,
                        r(Rule::Expr, Label::Index),
                        t(Tok::RBracket),
                    ],
                ),
            ),
        ],
    },
    Body::Choice {
        ll1: false,
        alts: &[
            Alt(Kind::Ident, &[LEADING_DOT, IDENT]),
            Alt(
                Kind::GlobalCall,
                &[LEADING_DOT, IDENT, l(Tok::LParen, Label::Op), ARGS, t(Tok::RParen)],
            ),
            Alt(Kind::Nested, &[t(Tok::LParen), r(Rule::Expr, Label::E), t(Tok::RParen)]),
            Alt(
                Kind::CreateList,
                &[
                    l(Tok::LBracket, Label::Op),
                    Optional(&[r(Rule::ListInit, Label::Elems)]),
                    COMMA,
                    t(Tok::RBracket),
                ],
            ),
            Alt(
                Kind::CreateStruct,
                &[
                    l(Tok::LBrace, Label::Op),
                    Optional(&[r(Rule::MapInitializerList, Label::Entries)]),
                    COMMA,
                    t(Tok::RBrace),
                ],
            ),
            Alt(
                Kind::CreateMessage,
                &[
                    LEADING_DOT,
                    IDENT,
                    Star {
                        ll1: true,
                        body: &[t(Tok::Dot), IDENT],
                    },
                    l(Tok::LBrace, Label::Op),
                    Optional(&[r(Rule::FieldInitializerList, Label::Entries)]),
                    COMMA,
                    t(Tok::RBrace),
                ],
            ),
            Alt(Kind::ConstantLiteral, &[r(Rule::Literal, Label::None)]),
        ],
    },
    Body::Single(&[
        r(Rule::Expr, Label::E),
        Star {
            ll1: true,
            body: &[t(Tok::Comma), r(Rule::Expr, Label::E)],
        },
    ]),
    Body::Single(&[
        r(Rule::OptExpr, Label::Elems),
        Star {
            ll1: false,
            body: &[t(Tok::Comma), r(Rule::OptExpr, Label::Elems)],
        },
    ]),
    Body::Single(&[
        r(Rule::OptField, Label::Fields),
        l(Tok::Colon, Label::Cols),
        r(Rule::Expr, Label::Values),
        Star {
            ll1: false,
            body: &[
                t(Tok::Comma),
                r(Rule::OptField, Label::Fields),
                l(Tok::Colon, Label::Cols),
                r(Rule::Expr, Label::Values),
            ],
        },
    ]),
    Body::Single(&[QUESTION, r(Rule::EscapeIdent, Label::Id)]),
    Body::Single(&[
        r(Rule::OptExpr, Label::Keys),
        l(Tok::Colon, Label::Cols),
        r(Rule::Expr, Label::Values),
        Star {
            ll1: false,
            body: &[
                t(Tok::Comma),
                r(Rule::OptExpr, Label::Keys),
                l(Tok::Colon, Label::Cols),
                r(Rule::Expr, Label::Values),
            ],
        },
    ]),
    Body::Choice {
        ll1: true,
        alts: &[
            Alt(Kind::SimpleIdentifier, &[IDENT]),
            Alt(Kind::EscapedIdentifier, &[l(Tok::EscIdent, Label::Id)]),
        ],
    },
    Body::Single(&[QUESTION, r(Rule::Expr, Label::E)]),
    Body::Choice {
        ll1: false,
        alts: &[
            Alt(Kind::Int, &[SIGN, l(Tok::Int, Label::Tok)]),
            Alt(Kind::Uint, &[l(Tok::Uint, Label::Tok)]),
            Alt(Kind::Double, &[SIGN, l(Tok::Float, Label::Tok)]),
            Alt(Kind::String, &[l(Tok::String, Label::Tok)]),
            Alt(Kind::Bytes, &[l(Tok::Bytes, Label::Tok)]),
            Alt(Kind::BoolTrue, &[l(Tok::True, Label::Tok)]),
            Alt(Kind::BoolFalse, &[l(Tok::False, Label::Tok)]),
            Alt(Kind::Null, &[l(Tok::Null, Label::Tok)]),
        ],
    },
];

/// How messages name a token.
pub(super) fn token_name(symbol: i16) -> &'static str {
    const NAMES: [&str; 38] = [
        "<EOF>",
        "'=='",
        "'!='",
        "'in'",
        "'<'",
        "'<='",
        "'>='",
        "'>'",
        "'&&'",
        "'||'",
        "'['",
        "']'",
        "'{'",
        "'}'",
        "'('",
        "')'",
        "'.'",
        "','",
        "'-'",
        "'!'",
        "'?'",
        "':'",
        "'+'",
        "'*'",
        "'/'",
        "'%'",
        "'true'",
        "'false'",
        "'null'",
        "WHITESPACE",
        "COMMENT",
        "NUM_FLOAT",
        "NUM_INT",
        "NUM_UINT",
        "STRING",
        "BYTES",
        "IDENTIFIER",
        "ESC_IDENTIFIER",
    ];
    match symbol {
        super::symbols::EPSILON => "<EPSILON>",
        _ => NAMES.get(symbol.max(0) as usize).copied().unwrap_or("<INVALID>"),
    }
}
