//! Checks that no folder of `host` and `guest-sdk` has an import cycle between its files and subfolders.
//! `mod.rs` and `lib.rs` do not count, because they name all files of their folder. Code under `#[cfg(test)]`
//! does not count either.

use sandmill_tests::root;
use sandmill_tests::sources::{
    Token, imports, module_of, read, rust_files, tokens, uses, without_tests,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

#[test]
fn no_folder_has_an_import_cycle() {
    let mut found = Vec::new();
    let mut files = 0;
    for src in source_folders() {
        let folder = root().join(&src);
        let sources: BTreeMap<_, _> = rust_files(&folder)
            .into_iter()
            // main.rs belongs to the program, not to the library.
            .filter(|path| *path != folder.join("main.rs"))
            .map(|path| (module_of(path.strip_prefix(&folder).expect("below src")), read(&path)))
            .collect();
        let modules = Modules::new(&src, &sources);
        files += modules.code.len();
        found.extend(modules.cycles());
    }
    assert!(files > 400, "only {files} files were read");
    let wrong: Vec<String> = found.iter().map(Cycle::describe).collect();
    assert!(
        wrong.is_empty(),
        "files that import each other in a cycle; move what they share into a separate file:\n{}",
        wrong.join("\n")
    );
}

/// The `src` folders of the crates.
fn source_folders() -> Vec<String> {
    let entries = fs::read_dir(root().join("host")).expect("the sources are there");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let mut folders: Vec<String> =
        names.map(|name| format!("host/{}/src", name.to_string_lossy())).collect();
    folders.extend(["host/src", "guest-sdk/src"].map(str::to_owned));
    folders.retain(|folder| root().join(folder).join("lib.rs").exists());
    folders
}

type Module = Vec<String>;

/// The modules of a crate, without modules of tests.
struct Modules {
    src: String,
    /// Each module with its code.
    code: BTreeMap<Module, Vec<Token>>,
}

/// A cycle of imports among the files and subfolders of one folder.
struct Cycle {
    folder: String,
    /// The number of files and subfolders in the cycle.
    count: usize,
    /// The shortest path from one of them back to itself.
    path: Vec<String>,
}

impl Cycle {
    fn describe(&self) -> String {
        let Self { folder, count, path } = self;
        format!("{folder}: {} ({count} in all)", path.join(" -> "))
    }
}

impl Modules {
    /// `sources`: all files of the crate, including tests.
    fn new(src: &str, sources: &BTreeMap<Module, String>) -> Self {
        let mut modules = BTreeMap::new();
        // The map is sorted, so each module comes after the module that declares it.
        for (module, source) in sources {
            let is_declared = module.split_last().is_none_or(|(name, above)| {
                modules.get(above).is_some_and(|code: &Vec<Token>| {
                    code.windows(3).any(|t| t[0].1 == "mod" && t[1].1 == *name && t[2].1 == ";")
                })
            });
            if is_declared {
                modules.insert(module.clone(), without_tests(&tokens(source)));
            }
        }
        Self { src: src.to_owned(), code: modules }
    }

    /// The cycles of each folder.
    fn cycles(&self) -> Vec<Cycle> {
        let mut cycles = Vec::new();
        for (folder, code) in &self.code {
            let imports_by_child = self.sibling_imports(folder, code);
            let mut seen = BTreeSet::new();
            for name in imports_by_child.keys() {
                let Some(path) =
                    path_back(&imports_by_child, name).filter(|_| !seen.contains(name))
                else {
                    continue;
                };
                let members: Vec<&str> = reached(&imports_by_child, name)
                    .into_iter()
                    .filter(|other| reached(&imports_by_child, other).contains(name))
                    .collect();
                seen.extend(members.iter().copied());
                cycles.push(Cycle {
                    folder: [std::slice::from_ref(&self.src), folder.as_slice()].concat().join("/"),
                    count: members.len(),
                    path: path.into_iter().map(|name| self.file_name(folder, name)).collect(),
                });
            }
        }
        cycles
    }

    fn file_name(&self, folder: &[String], name: &str) -> String {
        let module = [folder, &[name.to_owned()]].concat();
        let has_children =
            self.code.keys().any(|it| it.len() > module.len() && it.starts_with(&module));
        if has_children { format!("{name}/") } else { format!("{name}.rs") }
    }

    /// For each child of a folder, the other children from which it imports.
    fn sibling_imports<'a>(
        &'a self,
        folder: &[String],
        code: &[Token],
    ) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let depth = folder.len();
        let inside =
            || self.code.iter().filter(|(it, _)| it.len() > depth && it.starts_with(folder));
        let children: BTreeSet<&str> = inside().map(|(it, _)| it[depth].as_str()).collect();
        let child = |path: &[String]| {
            path.starts_with(folder)
                .then(|| path.get(depth).and_then(|name| children.get(name.as_str()).copied()))?
        };
        // Names that the folder's module re-exports from a child. Other children may import them from the
        // folder.
        let re_exports: BTreeMap<String, &str> = uses(code, folder)
            .into_iter()
            .filter_map(|it| Some((it.name, child(&it.path)?)))
            .collect();
        let mut imports_by_child: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, code) in inside() {
            let from = module[depth].as_str();
            for import in imports(code, module) {
                let named = import.path.get(depth).filter(|_| import.path.starts_with(folder));
                let to = child(&import.path).or_else(|| re_exports.get(named?).copied());
                if let Some(to) = to.filter(|to| *to != from) {
                    imports_by_child.entry(from).or_default().insert(to);
                }
            }
        }
        imports_by_child
    }
}

type ImportsByChild<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// All files and folders that `from` imports, directly or indirectly.
fn reached<'a>(imports_by_child: &ImportsByChild<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = imports_by_child.get(from).into_iter().flatten().copied().collect();
    while let Some(name) = next.pop() {
        if found.insert(name) {
            next.extend(imports_by_child.get(name).into_iter().flatten());
        }
    }
    found
}

/// The shortest path of imports from `from` back to `from`. `None` if there is no such path.
fn path_back<'a>(imports_by_child: &ImportsByChild<'a>, from: &'a str) -> Option<Vec<&'a str>> {
    let mut paths = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop_front() {
        for next in imports_by_child.get(path.last()?).into_iter().flatten().copied() {
            let longer = [path.as_slice(), &[next]].concat();
            if next == from {
                return Some(longer);
            }
            if seen.insert(next) {
                paths.push_back(longer);
            }
        }
    }
    None
}

/// The cycles in a crate with these files, one line each.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let sources =
        files.iter().map(|(path, source)| (module_of(Path::new(path)), (*source).to_owned()));
    Modules::new("src", &sources.collect()).cycles().iter().map(Cycle::describe).collect()
}

#[test]
fn finds_cycles_of_files_and_folders() {
    let lib = ("lib.rs", "mod a; mod b; mod c; pub use a::{A, inner::Inner as Other};");
    let cycles = |a, b, c| cycles_of(&[lib, ("a.rs", a), ("b.rs", b), ("c.rs", c)]);
    let no_cycles: [&str; 0] = [];
    let one = ["src: a.rs -> b.rs -> a.rs (2 in all)"];
    assert_eq!(cycles("use super::b::X;", "use super::a::Y;", ""), one);
    assert_eq!(cycles("use crate::{b::X, c};", "fn f() { crate::a::y(); }", ""), one);
    // The imports go through names that the folder's module re-exports.
    assert_eq!(cycles("use crate::b::X;", "use crate::A;", ""), one);
    assert_eq!(cycles("mod m { use super::super::b; }", "use super::Other;", ""), one);
    assert_eq!(cycles("use crate::b::X;", "use crate::Unknown;", ""), no_cycles);
    // A longer cycle is reported by its shortest path.
    let three = ["src: a.rs -> b.rs -> c.rs -> a.rs (3 in all)"];
    assert_eq!(cycles("use super::b;", "use super::c;", "use super::{b, a::{self}};"), three);
    assert_eq!(cycles("use super::{b, c};", "use super::c;", ""), no_cycles);
    // A folder counts as one unit in its parent folder. Cycles between its files also count.
    let deep = [
        ("lib.rs", "mod a; mod d;"),
        ("a.rs", "use super::d::X;"),
        ("d/mod.rs", "mod x; mod y; pub use x::X;"),
        ("d/x.rs", "use super::y::Y; use super::super::a::A;"),
        ("d/y.rs", "pub(super) use super::X;"),
    ];
    let both = ["src: a.rs -> d/ -> a.rs (2 in all)", "src/d: x.rs -> y.rs -> x.rs (2 in all)"];
    assert_eq!(cycles_of(&deep), both);
}

#[test]
fn leaves_tests_out() {
    let product =
        "use super::b::X; #[cfg(test)] #[expect(dead_code)] mod tests { use super::super::c::X; }";
    let cycles = |b| {
        cycles_of(&[
            (
                "lib.rs",
                "mod a; mod b; mod c; #[cfg(any(test, feature = \"testing\"))] #[doc(hidden)] pub mod d;",
            ),
            ("a.rs", product),
            ("b.rs", b),
            ("c.rs", "use super::{a::X, d};"),
            ("d.rs", "use super::c::X;"),
        ])
    };
    assert!(
        cycles("#[cfg(test)] use super::{a::X}; #[cfg(test)] fn f() { super::c::x(); }").is_empty()
    );
    assert_eq!(cycles("use super::a::X;"), ["src: a.rs -> b.rs -> a.rs (2 in all)"]);
    assert_eq!(
        cycles("#[cfg(not(test))] use super::a::X;"),
        ["src: a.rs -> b.rs -> a.rs (2 in all)"]
    );
}
