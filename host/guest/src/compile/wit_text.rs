//! Component types as text in WIT notation, for comparisons and messages.

use wasmtime::component::types::{ComponentFunc, Type};

/// A function's type, for example `func() -> result<_, string>`. The names of parameters are left out,
/// because a call does not depend on them.
pub fn describe_function(function: &ComponentFunc) -> String {
    let parameters: Vec<String> = function.params().map(|(_, ty)| describe(&ty)).collect();
    let result = function.results().next().map(|ty| format!(" -> {}", describe(&ty)));
    let prefix = if function.async_() { "async " } else { "" };
    format!("{prefix}func({}){}", parameters.join(", "), result.unwrap_or_default())
}

/// A type in WIT notation. Named types are replaced by their definitions.
fn describe(ty: &Type) -> String {
    let optional = |ty: Option<Type>| ty.map_or_else(|| "_".to_owned(), |ty| describe(&ty));
    match ty {
        Type::Bool => "bool".into(),
        Type::S8 => "s8".into(),
        Type::U8 => "u8".into(),
        Type::S16 => "s16".into(),
        Type::U16 => "u16".into(),
        Type::S32 => "s32".into(),
        Type::U32 => "u32".into(),
        Type::S64 => "s64".into(),
        Type::U64 => "u64".into(),
        Type::Float32 => "f32".into(),
        Type::Float64 => "f64".into(),
        Type::Char => "char".into(),
        Type::String => "string".into(),
        Type::List(list) => format!("list<{}>", describe(&list.ty())),
        Type::Option(option) => format!("option<{}>", describe(&option.ty())),
        Type::Result(result) => match (result.ok(), result.err()) {
            (None, None) => "result".into(),
            (ok, None) => format!("result<{}>", optional(ok)),
            (ok, err) => format!("result<{}, {}>", optional(ok), optional(err)),
        },
        Type::Tuple(tuple) => {
            let types: Vec<String> = tuple.types().map(|ty| describe(&ty)).collect();
            format!("tuple<{}>", types.join(", "))
        }
        Type::Record(record) => {
            let fields = record.fields().map(|f| format!("{}: {}", f.name, describe(&f.ty)));
            format!("record {{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Type::Variant(variant) => {
            let cases = variant.cases().map(|case| match case.ty {
                Some(ty) => format!("{}({})", case.name, describe(&ty)),
                None => case.name.to_owned(),
            });
            format!("variant {{ {} }}", cases.collect::<Vec<_>>().join(", "))
        }
        Type::Enum(cases) => {
            format!("enum {{ {} }}", cases.names().collect::<Vec<_>>().join(", "))
        }
        Type::Flags(flags) => {
            format!("flags {{ {} }}", flags.names().collect::<Vec<_>>().join(", "))
        }
        Type::Own(_) => "own resource".into(),
        Type::Borrow(_) => "borrowed resource".into(),
        Type::Map(map) => format!("map<{}, {}>", describe(&map.key()), describe(&map.value())),
        Type::FixedLengthList(list) => format!("list<{}, {}>", describe(&list.ty()), list.len()),
        Type::Future(_) => "future".into(),
        Type::Stream(_) => "stream".into(),
        Type::ErrorContext => "error-context".into(),
    }
}
