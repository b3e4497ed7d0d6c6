//! `sandmill python` and `sandmill javascript`: the runtimes of scripts.

use super::exit::{Exit, Problem};
use super::tools::{ToolArguments, ToolSettings};
use super::{print_paths, say};
use crate::compile::Instrumentation;
use crate::node::python::prepare;
use crate::runtimes;
use std::path::PathBuf;

/// A command about Python.
#[derive(Debug, clap::Subcommand)]
pub(super) enum PythonCommand {
    /// Builds the runtime of Python scripts and compiles it, once per machine and version of Sandmill.
    ///
    /// Your own pip (or uv) downloads the parts of the runtime. No other command downloads them.
    Install(InstallArguments),
    /// Installs pure-Python packages next to a script, into the folder python_packages.
    ///
    /// Your own pip downloads the packages with their dependencies. If a package has C code, the command
    /// fails and names the package.
    Vendor(VendorArguments),
}

/// Which packages to install, and where.
#[derive(Debug, clap::Args)]
pub(super) struct VendorArguments {
    /// Packages, such as rich or rich==13.7.
    #[arg(required_unless_present = "requirements")]
    packages: Vec<String>,
    /// A file with packages, one per line; packages that the science runtime has are left out.
    #[arg(short, long, value_name = "FILE")]
    requirements: Option<PathBuf>,
    /// The script's folder.
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
    /// A folder with wheels to install from; nothing is downloaded.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

/// A command about JavaScript.
#[derive(Debug, clap::Subcommand)]
pub(super) enum JavascriptCommand {
    /// Builds the runtime of scripts in JavaScript and TypeScript and compiles it, once per machine and
    /// version of Sandmill.
    ///
    /// Your own npm downloads the parts of the runtime. No other command downloads them.
    Install(InstallOptions),
}

/// What to install.
#[derive(Debug, clap::Args)]
pub(super) struct InstallArguments {
    /// The runtime: light is CPython with its standard library; science has numpy, pandas, scikit-learn and
    /// more.
    #[arg(value_enum, default_value = "light")]
    runtime: RuntimeArgument,
    #[command(flatten)]
    how: InstallOptions,
}

/// The source, the destination and the options of an installation.
#[derive(Debug, clap::Args)]
pub(super) struct InstallOptions {
    /// A folder with the runtime of a release, or with the wheel from which the runtime is built; nothing is
    /// downloaded.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The folder for the runtime, for instance the folder of the program itself [default: a folder next to
    /// the compiled code].
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Compiles the runtime for jobs with `limits.fuel`.
    #[arg(long)]
    fuel: bool,
    /// Compiles the runtime for jobs with `profiling_module: guest`.
    #[arg(long)]
    profile: bool,
    /// Compiles the runtime for jobs that are `deterministic`.
    #[arg(long)]
    deterministic: bool,
    #[command(flatten)]
    tools: ToolArguments,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RuntimeArgument {
    Light,
    Science,
}

pub(super) fn python(command: &PythonCommand) -> Result<Exit, Problem> {
    let install = match command {
        PythonCommand::Install(install) => install,
        PythonCommand::Vendor(arguments) => return vendor(arguments),
    };
    let runtime = match install.runtime {
        RuntimeArgument::Light => runtimes::Runtime::Light,
        RuntimeArgument::Science => runtimes::Runtime::Science,
    };
    install_runtime(runtime, &install.how)
}

fn vendor(arguments: &VendorArguments) -> Result<Exit, Problem> {
    let VendorArguments { packages, requirements, into, from } = arguments;
    let vendor = runtimes::Vendor {
        packages,
        requirements: requirements.as_deref(),
        folder: into,
        from: from.as_deref(),
    };
    let vendored = vendor.vendor(&mut say).map_err(Problem::usage)?;
    for (what, names) in [
        ("now beside the script", &vendored.packages),
        ("left out, because the science runtime has them", &vendored.left_out),
        ("needed from the science runtime", &vendored.needs),
    ] {
        if !names.is_empty() {
            say(&format!("{what}: {}", names.join(", ")));
        }
    }
    match vendored.folder {
        Some(folder) => print_paths(&[folder])?,
        None => say("nothing to install"),
    }
    Ok(Exit::Completed)
}

pub(super) fn javascript(command: &JavascriptCommand) -> Result<Exit, Problem> {
    let JavascriptCommand::Install(how) = command;
    install_runtime(runtimes::Runtime::JavaScript, how)
}

fn install_runtime(runtime: runtimes::Runtime, install: &InstallOptions) -> Result<Exit, Problem> {
    let ToolSettings { program, os_sandbox, compiler, cache, .. } = install.tools.load()?;
    let installer = runtimes::Installer {
        program: &program,
        compiler: &compiler,
        cache_dir: cache.as_deref(),
        from: install.from.as_deref(),
        into: install.into.as_deref(),
        with: Instrumentation {
            fuel: install.fuel,
            profile: install.profile,
            deterministic: install.deterministic,
        },
        prepare: &|preparing| {
            prepare(&program, os_sandbox, preparing).map_err(|error| error.to_string())
        },
    };
    let installed = installer.install(runtime, &mut say).map_err(Problem::usage)?;
    print_paths(&[installed.component])?;
    Ok(Exit::Completed)
}
