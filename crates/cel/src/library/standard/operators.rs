//! Declarations of the operators. The planner implements them; only the checker and the cost accounting use these.
//!
//! Upstream counterpart: the operator part of cel-go `common/stdlib/standard.go`.

use crate::{
    decl::{Library, global},
    types::{A, B, Type},
};

use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};

pub(super) fn declare(library: &mut Library) {
    let list = || Type::list(A);
    let map = || Type::map(A, B);

    library.add("_?_:_", [global("conditional", &[Bool, A, A], A).non_strict()]);
    library.add("_&&_", [global("logical_and", &[Bool, Bool], Bool).non_strict()]);
    library.add("_||_", [global("logical_or", &[Bool, Bool], Bool).non_strict()]);
    library.add("!_", [global("logical_not", &[Bool], Bool)]);
    library.add(
        "@not_strictly_false",
        [global("not_strictly_false", &[Bool], Bool).non_strict()],
    );
    library.add("_==_", [global("equals", &[A, A], Bool)]);
    library.add("_!=_", [global("not_equals", &[A, A], Bool)]);

    library.add(
        "_+_",
        [
            global("add_bytes", &[Bytes, Bytes], Bytes),
            global("add_double", &[Double, Double], Double),
            global("add_duration_duration", &[Duration, Duration], Duration),
            global("add_duration_timestamp", &[Duration, Timestamp], Timestamp),
            global("add_timestamp_duration", &[Timestamp, Duration], Timestamp),
            global("add_int64", &[Int, Int], Int),
            global("add_list", &[list(), list()], list()),
            global("add_string", &[String, String], String),
            global("add_uint64", &[Uint, Uint], Uint),
        ],
    );
    library.add(
        "_/_",
        [
            global("divide_double", &[Double, Double], Double),
            global("divide_int64", &[Int, Int], Int),
            global("divide_uint64", &[Uint, Uint], Uint),
        ],
    );
    library.add(
        "_%_",
        [
            global("modulo_int64", &[Int, Int], Int),
            global("modulo_uint64", &[Uint, Uint], Uint),
        ],
    );
    library.add(
        "_*_",
        [
            global("multiply_double", &[Double, Double], Double),
            global("multiply_int64", &[Int, Int], Int),
            global("multiply_uint64", &[Uint, Uint], Uint),
        ],
    );
    library.add(
        "-_",
        [
            global("negate_double", &[Double], Double),
            global("negate_int64", &[Int], Int),
        ],
    );
    library.add(
        "_-_",
        [
            global("subtract_double", &[Double, Double], Double),
            global("subtract_duration_duration", &[Duration, Duration], Duration),
            global("subtract_int64", &[Int, Int], Int),
            global("subtract_timestamp_duration", &[Timestamp, Duration], Timestamp),
            global("subtract_timestamp_timestamp", &[Timestamp, Timestamp], Duration),
            global("subtract_uint64", &[Uint, Uint], Uint),
        ],
    );
    relations(library);

    library.add(
        "_[_]",
        [
            global("index_list", &[list(), Int], A),
            global("index_map", &[map(), A], B),
        ],
    );
    library.add(
        "@in",
        [
            global("in_list", &[A, list()], Bool),
            global("in_map", &[A, map()], Bool),
        ],
    );
}

fn relations(library: &mut Library) {
    /// The ids of one relation's overloads, in the order of [`OPERANDS`].
    macro_rules! ids {
        ($prefix:literal) => {
            [
                concat!($prefix, "_bool"),
                concat!($prefix, "_int64"),
                concat!($prefix, "_int64_double"),
                concat!($prefix, "_int64_uint64"),
                concat!($prefix, "_uint64"),
                concat!($prefix, "_uint64_double"),
                concat!($prefix, "_uint64_int64"),
                concat!($prefix, "_double"),
                concat!($prefix, "_double_int64"),
                concat!($prefix, "_double_uint64"),
                concat!($prefix, "_string"),
                concat!($prefix, "_bytes"),
                concat!($prefix, "_timestamp"),
                concat!($prefix, "_duration"),
            ]
        };
    }
    const OPERANDS: [[Type; 2]; 14] = [
        [Bool, Bool],
        [Int, Int],
        [Int, Double],
        [Int, Uint],
        [Uint, Uint],
        [Uint, Double],
        [Uint, Int],
        [Double, Double],
        [Double, Int],
        [Double, Uint],
        [String, String],
        [Bytes, Bytes],
        [Timestamp, Timestamp],
        [Duration, Duration],
    ];
    for (operator, ids) in [
        ("_<_", ids!("less")),
        ("_<=_", ids!("less_equals")),
        ("_>_", ids!("greater")),
        ("_>=_", ids!("greater_equals")),
    ] {
        library.add(
            operator,
            ids.into_iter()
                .zip(&OPERANDS)
                .map(|(id, operands)| global(id, operands, Bool)),
        );
    }
}
