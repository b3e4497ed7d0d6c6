//! Builds a folder of C or C++ sources into a core module. A compiler with WASI support compiles them
//! together with Sandmill's own C files, which connect them to the contract.

use super::CompileError;
use super::toolchain::in_path;
use sandmill_files::is_cpp;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder for Sandmill's C files, below the user's folder.
const BINDINGS_FOLDER: &str = "target/sandmill";
/// The file with the user's compiler flags, one per line. clangd, the language server of editors, reads the
/// same file.
const FLAGS_FILE: &str = "compile_flags.txt";
/// The distribution's headers of wasi-libc.
const WASI_INCLUDE: &str = "/usr/include/wasm32-wasi";
/// The distribution's headers of the C++ standard library.
const CPP_INCLUDE: &str = "/usr/include/wasm32-wasi/c++/v1";
/// The distribution's libraries of wasi-libc.
const WASI_LIBC: &str = "/usr/lib/wasm32-wasi";

macro_rules! generated {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name)).as_slice())),*]
    };
}

/// Sandmill's headers and sources.
const OWN_FILES: &[(&str, &str)] = embedded!("c":
    "sandmill.h",
    "sandmill_internal.h",
    "sandmill.c",
    "sandmill_table.c",
    "sandmill_write.c",
);
/// The files that wit-bindgen generated from the contract.
const GENERATED_FILES: [(&str, &[u8]); 3] =
    generated!["entry_script.h", "entry_script.c", "entry_script_component_type.o"];

/// Compiles the sources. Returns the path of the core module, which is in the folder's `target`. `say`
/// receives the compiler's warnings.
///
/// # Errors
/// If there is no compiler, the folder cannot be written, or the sources do not compile. If the
/// sources do not compile, the text ends with the compiler's output.
pub(super) fn build(
    folder: &Path,
    sources: &[PathBuf],
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, CompileError> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let bindings = folder.join(BINDINGS_FOLDER);
    write_files(&bindings).map_err(|error| {
        CompileError::new(format!("{} cannot be written: {error}", bindings.display()))
    })?;
    let has_cpp = sources.iter().any(|source| is_cpp(source));
    let compiler = CCompiler::find(has_cpp, |name| std::env::var_os(name).map(PathBuf::from))?;
    let name = folder.file_name().unwrap_or(OsStr::new("entry-script"));
    let module = folder.join("target").join(name).with_extension("wasm");
    // Write the module under another name and rename it, so that no reader sees an incomplete file.
    let part = module.with_extension(format!("{}.part", std::process::id()));
    let mut command = compiler.command(has_cpp);
    command.current_dir(&folder).args(["-O2", "-mexec-model=reactor", "-I"]).arg(&bindings);
    command.args(flags(&folder)?);
    let relative = |source: &PathBuf| source.strip_prefix(&folder).unwrap_or(source).to_owned();
    command.args(sources.iter().map(|source| {
        let source = std::path::absolute(source).unwrap_or_else(|_| source.clone());
        relative(&source)
    }));
    let own_sources = own_files().map(|(name, _)| name).filter(|name| !name.ends_with(".h"));
    command.args(own_sources.map(|name| bindings.join(name)));
    // Keep the names of functions: error messages about traps show them.
    command.args(has_cpp.then_some("-fno-exceptions")).args(["-Wl,--strip-debug", "-o"]).arg(&part);
    let compiled = run(&mut command, &folder, &compiler, say);
    let renamed = compiled.and_then(|()| {
        std::fs::rename(&part, &module).map_err(|error| {
            CompileError::new(format!("{} cannot be written: {error}", module.display()))
        })
    });
    if renamed.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    renamed.map(|()| module)
}

/// Sandmill's own files, with their names.
fn own_files() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    OWN_FILES.iter().map(|(name, text)| (*name, text.as_bytes())).chain(GENERATED_FILES)
}

/// Writes Sandmill's files. An unchanged file keeps its modification time, so that programs that watch files
/// see no change.
fn write_files(bindings: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(bindings)?;
    for (name, bytes) in own_files() {
        let path = bindings.join(name);
        if std::fs::read(&path).is_ok_and(|existing| existing == bytes) {
            continue;
        }
        let part = bindings.join(format!("{name}.{}.part", std::process::id()));
        std::fs::write(&part, bytes)?;
        std::fs::rename(&part, &path)?;
    }
    Ok(())
}

/// Reads the user's compiler flags.
fn flags(folder: &Path) -> Result<Vec<String>, CompileError> {
    let path = folder.join(FLAGS_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(CompileError::new(format!("{} cannot be read: {error}", path.display())));
        }
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

fn run(
    command: &mut Command,
    folder: &Path,
    compiler: &CCompiler,
    say: &mut dyn FnMut(&str),
) -> Result<(), CompileError> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        CompileError::new(format!("the compiler {} cannot be run: {error}", compiler.name()))
    })?;
    let messages = [output.stderr, output.stdout].concat();
    let messages = String::from_utf8_lossy(&messages);
    let messages = messages.trim_end();
    if output.status.success() {
        messages.lines().for_each(say);
        return Ok(());
    }
    let hint = if messages.contains("undefined symbol: sandmill_run") {
        "\nDefine `sandmill_run` as sandmill.h declares it. A C++ file must include sandmill.h"
    } else {
        ""
    };
    Err(CompileError::new(format!(
        "the sources in {} do not compile with {}:\n{messages}{hint}",
        folder.display(),
        compiler.name()
    )))
}

/// A C compiler that targets WebAssembly with WASI.
#[derive(Debug, PartialEq, Eq)]
enum CCompiler {
    /// The clang of wasi-sdk, which has a libc.
    Sdk(PathBuf),
    /// A clang that uses the distribution's wasi-libc.
    Distribution(PathBuf),
    /// zig, which contains a clang and wasi-libc.
    Zig(PathBuf),
    /// zig as a Python package.
    PythonZig(PathBuf),
}

impl CCompiler {
    /// Returns the first compiler that is installed. `variable` reads the environment.
    fn find(
        has_cpp: bool,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, CompileError> {
        if let Some(sdk) = variable("WASI_SDK_PATH") {
            let clang = sdk.join("bin/clang");
            if clang.is_file() {
                return Ok(Self::Sdk(clang));
            }
            return Err(CompileError::new(format!(
                "WASI_SDK_PATH is {}, which has no bin/clang: set it to the folder of wasi-sdk, or unset it",
                sdk.display()
            )));
        }
        let python = || {
            let active = variable("VIRTUAL_ENV").map(|env| env.join("bin/python3"));
            active.into_iter().chain(in_path("python3")).find(|python| has_zig(python))
        };
        let has_distribution_libc = Path::new(WASI_INCLUDE).join("stdio.h").is_file()
            && (!has_cpp || Path::new(CPP_INCLUDE).join("vector").is_file());
        // The newest version first.
        let clangs = (14..=30).rev().map(|version| format!("clang-{version}"));
        let clang =
            std::iter::once("clang".to_owned()).chain(clangs).find_map(|name| in_path(&name));
        clang
            .filter(|_| has_distribution_libc)
            .map(Self::Distribution)
            .or_else(|| in_path("zig").map(Self::Zig))
            .or_else(|| python().map(Self::PythonZig))
            .ok_or_else(|| {
                CompileError::new(
                    "no C compiler for WebAssembly was found. Install one: `pip install ziglang` for your python3, zig itself, \
                     or on Debian and Ubuntu `apt-get install clang lld wasi-libc libclang-rt-dev-wasm32`, and for C++ \
                     `libc++-dev-wasm32 libc++abi-dev-wasm32`; or set WASI_SDK_PATH to a wasi-sdk",
                )
            })
    }

    fn command(&self, has_cpp: bool) -> Command {
        let zig = if has_cpp { "c++" } else { "cc" };
        let mut command = match self {
            Self::Sdk(program)
            | Self::Distribution(program)
            | Self::Zig(program)
            | Self::PythonZig(program) => Command::new(program),
        };
        match self {
            Self::Sdk(_) => {
                command.arg("--target=wasm32-wasi");
            }
            Self::Distribution(_) => {
                command.args(["--target=wasm32-wasi", "--sysroot=/usr"]);
                if has_cpp {
                    // The C++ headers must come first, because they include the C headers with
                    // `#include_next`.
                    command.args(["-isystem", CPP_INCLUDE]);
                }
                command.args(["-isystem", WASI_INCLUDE]);
                command.args(["-L", WASI_LIBC]);
            }
            Self::Zig(_) => {
                command.args([zig, "--target=wasm32-wasi"]);
            }
            Self::PythonZig(_) => {
                command.args(["-m", "ziglang", zig, "--target=wasm32-wasi"]);
            }
        }
        if has_cpp && matches!(self, Self::Sdk(_) | Self::Distribution(_)) {
            // We call clang, because it chooses C or C++ by the name of each source. (clang++ would compile
            // our own C sources as C++.) But clang does not link the C++ libraries by itself.
            command.args(["-lc++", "-lc++abi"]);
        }
        command
    }

    fn name(&self) -> String {
        match self {
            Self::Sdk(program) | Self::Distribution(program) | Self::Zig(program) => {
                program.display().to_string()
            }
            Self::PythonZig(python) => format!("{} -m ziglang", python.display()),
        }
    }
}

fn has_zig(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import ziglang"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_named_wasi_sdk_is_used_or_reported_missing() {
        let sdk = folder(&[("bin/clang", "")]);
        let named = |name: &str| (name == "WASI_SDK_PATH").then(|| sdk.path().to_owned());
        assert_eq!(CCompiler::find(false, named), Ok(CCompiler::Sdk(sdk.path().join("bin/clang"))));
        std::fs::remove_file(sdk.path().join("bin/clang")).unwrap();
        let error = CCompiler::find(true, named).unwrap_err().to_string();
        assert!(error.ends_with("set it to the folder of wasi-sdk, or unset it"), "{error}");
    }

    /// Checks that the list has all source files, because a release contains only the files in the
    /// list.
    #[test]
    fn all_source_files_are_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../c");
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut embedded: Vec<_> = OWN_FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        names.sort();
        embedded.sort();
        assert_eq!(names, embedded);
    }
}
