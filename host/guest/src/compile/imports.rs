//! Decides which imports an entry script may have, and explains refusals.

use crate::features::HAS_INFERENCE;
use crate::model::{Feature, nearest};

/// The granted version of `wasi:nn`. The drafts of `wasi:nn` are incompatible with each other.
pub const NN_VERSION: &str = "0.2.0-rc-2024-10-28";

/// How to build WASI 0.2 components with tools for WASI 0.3.
pub(super) const ADVICE_FOR_WASI_0_3: &str = ". With jco's QuickJS: --backend-qjs-disable-async; with \
    componentize-py: functions without async, as in the contract's wit/; with Rust: --target wasm32-wasip2";

/// The verdict on one import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportVerdict {
    /// The import is granted. The text says what it gives the entry script.
    Granted(&'static str),
    /// The import is refused. The text says why, and how to avoid the import.
    Refused(String),
}

/// Decides whether an import is granted.
pub fn judge_import(import: &str) -> ImportVerdict {
    use ImportVerdict::{Granted, Refused};
    let (name, version) = split_version(import).unwrap_or((import, ""));
    match name.split_once('/') {
        Some(("wasi:nn", _) | ("sandmill:entry", "models")) if !HAS_INFERENCE => Refused(format!(
            "it is for inference, and {}: use a build with that feature",
            Feature::Inference.absence()
        )),
        Some(("sandmill:entry", interface)) => judge_contract(interface, version),
        Some((package, interface)) if is_granted_wasi(package) => {
            if version != "0.2" && !version.starts_with("0.2.") {
                let for_tools =
                    if version.starts_with("0.3") { ADVICE_FOR_WASI_0_3 } else { "" };
                return Refused(format!(
                    "it is WASI {version}, and this Sandmill grants WASI 0.2: build for \
                     wasm32-wasip2, or with a toolchain of WASI 0.2{for_tools}"
                ));
            }
            describe_wasi(package, interface).map_or_else(
                || {
                    let near = nearest_granted(package, interface)
                        .map_or(String::new(), |near| format!(" (the nearest is {package}/{near})"));
                    Refused(format!(
                        "Sandmill has no such interface of WASI 0.2{near}: update or change the \
                         toolchain, or leave out the library that needs it"
                    ))
                },
                Granted,
            )
        }
        Some(("wasi:nn", interface)) => judge_inference(interface, version),
        Some(("wasi:http", _)) => Refused(
            "it is for HTTP, and entry scripts have no network: pass the data as an input or side \
             input, and leave the HTTP client out of the build"
                .into(),
        ),
        _ => Refused(
            "nothing of that name is granted; an entry script may import sandmill:entry/host and \
             models, wasi:nn and WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out \
             the library that needs it"
                .into(),
        ),
    }
}

fn judge_contract(interface: &str, version: &str) -> ImportVerdict {
    use ImportVerdict::{Granted, Refused};
    if !is_contract_version(version) {
        return Refused(format!(
            "it is version {version} of the contract, and this Sandmill supports versions 0.1 and 0.2: \
             build with an SDK of such a version"
        ));
    }
    match interface {
        "host" => Granted("the worker's name and folders, the log, and reading whole files"),
        "models" => Granted("what the job's models are"),
        "types" => Granted("types only"),
        _ => Refused("the contract has no such interface to import".into()),
    }
}

fn judge_inference(interface: &str, version: &str) -> ImportVerdict {
    use ImportVerdict::{Granted, Refused};
    if version != NN_VERSION {
        let found = if version.is_empty() { "without a version" } else { version };
        return Refused(format!(
            "it is wasi:nn {found}, and this Sandmill grants only wasi:nn {NN_VERSION}, as versions \
             of this draft are incompatible: build with bindings of that version, which is in \
             the contract's wit/ folder"
        ));
    }
    match interface {
        "tensor" | "graph" | "inference" | "errors" => Granted("running the job's models"),
        _ => Refused(format!(
            "wasi:nn {NN_VERSION} has no such interface; it has tensor, graph, inference and errors"
        )),
    }
}

fn is_granted_wasi(package: &str) -> bool {
    matches!(
        package,
        "wasi:cli" | "wasi:clocks" | "wasi:filesystem" | "wasi:io" | "wasi:random" | "wasi:sockets"
    )
}

/// The interfaces of WASI that are granted.
const GRANTED_WASI: [(&str, &[&str]); 6] = [
    (
        "wasi:cli",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", &["wall-clock", "monotonic-clock"]),
    ("wasi:filesystem", &["preopens", "types"]),
    ("wasi:io", &["error", "poll", "streams"]),
    ("wasi:random", &["random", "insecure", "insecure-seed"]),
    (
        "wasi:sockets",
        &[
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
            "instance-network",
            "network",
            "ip-name-lookup",
        ],
    ),
];

/// The granted interface with the most similar name, if one is similar.
fn nearest_granted(package: &str, interface: &str) -> Option<&'static str> {
    let (_, known) = GRANTED_WASI.iter().find(|(name, _)| *name == package)?;
    nearest(interface, known.iter().copied())
}

/// What an interface gives the entry script. `None` if the interface is not granted.
fn describe_wasi(package: &str, interface: &str) -> Option<&'static str> {
    Some(match (package, interface) {
        ("wasi:cli", "environment") => "the job's arguments and environment variables",
        ("wasi:cli", "exit") => "ending itself",
        ("wasi:cli", "stdin") => "an empty standard input",
        ("wasi:cli", "stdout" | "stderr") => "writing to its log files",
        (
            "wasi:cli",
            "terminal-input" | "terminal-output" | "terminal-stdin" | "terminal-stdout"
            | "terminal-stderr",
        ) => "asking for a terminal; there is none",
        ("wasi:clocks", "wall-clock") => "the date and time",
        ("wasi:clocks", "monotonic-clock") => "measuring time and sleeping",
        ("wasi:filesystem", "preopens" | "types") => {
            "files: inputs, side inputs and source read-only; its output and log folders"
        }
        ("wasi:io", "error" | "poll" | "streams") => {
            "reading and writing what the other imports give"
        }
        ("wasi:random", "random" | "insecure" | "insecure-seed") => "random numbers",
        (
            "wasi:sockets",
            "tcp" | "tcp-create-socket" | "udp" | "udp-create-socket" | "instance-network"
            | "network" | "ip-name-lookup",
        ) => "the network; every use is denied",
        _ => return None,
    })
}

/// Splits a name such as `a:b/c@1.2.3` at the `@`.
pub(super) fn split_version(name: &str) -> Option<(&str, &str)> {
    name.split_once('@')
}

/// Whether this Sandmill supports that version of the contract.
pub(super) fn is_contract_version(version: &str) -> bool {
    let patch = version.strip_prefix("0.1.").or_else(|| version.strip_prefix("0.2."));
    patch.is_some_and(|patch| !patch.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listed_interface_is_granted() {
        for (package, interfaces) in GRANTED_WASI {
            for interface in interfaces {
                let name = format!("{package}/{interface}@0.2.12");
                assert!(matches!(judge_import(&name), ImportVerdict::Granted(_)), "{name}");
            }
        }
        for name in ["wasi:cli/run@0.2.0", "wasi:sockets/tls@0.2.0", "wasi:config/store@0.2.0"] {
            assert!(matches!(judge_import(name), ImportVerdict::Refused(_)), "{name}");
        }
    }

    #[cfg(not(feature = "inference"))]
    #[test]
    fn a_build_without_inference_grants_no_models() {
        let refused = |name: &str| match judge_import(name) {
            ImportVerdict::Refused(why) => why,
            ImportVerdict::Granted(what) => panic!("{name}: {what}"),
        };
        let of_wasi = refused(&format!("wasi:nn/inference@{NN_VERSION}"));
        insta::assert_snapshot!(of_wasi, @"it is for inference, and this sandmill was built without inference (feature `inference`): use a build with that feature");
        assert_eq!(refused("sandmill:entry/models@0.1.0"), of_wasi);
        assert!(matches!(judge_import("sandmill:entry/host@0.1.0"), ImportVerdict::Granted(_)));
    }

    #[cfg(feature = "inference")]
    #[test]
    fn all_refused_imports_are_named() {
        use crate::compile::{ComponentNames, check_names};
        let names = ComponentNames {
            imports: [
                "sandmill:entry/host@0.1.3",
                "sandmill:entry/host@0.2.0",
                "sandmill:entry/host@0.3.0",
                "wasi:cli/environment@0.2.0",
                "wasi:cli/environment@0.3.0",
                "wasi:cli/enviroment@0.2.0",
                "wasi:clocks/timezone@0.2.0",
                "wasi:http/outgoing-handler@0.2.4",
                "wasi:nn/inference@0.2.0-rc-2024-10-28",
                "wasi:nn/inference@0.2.0-rc-2024-08-19",
                "wasi:nn/inference",
                "wasi:nn/training@0.2.0-rc-2024-10-28",
                "sandmill:entry/models@0.1.0",
                "sandmill:entry/models@0.2.0",
                "sandmill:entry/models@1.0.0",
                "wasi:sockets/tcp@0.2.6",
                "env",
            ]
            .map(str::to_owned)
            .to_vec(),
            exports: vec!["sandmill:entry/entry@0.1.0".to_owned()],
        };
        insta::assert_snapshot!(check_names(&names).expect_err("refused"), @"
        the entry script imports interfaces that are not granted:
          sandmill:entry/host@0.3.0: it is version 0.3.0 of the contract, and this Sandmill supports versions 0.1 and 0.2: build with an SDK of such a version
          wasi:cli/environment@0.3.0: it is WASI 0.3.0, and this Sandmill grants WASI 0.2: build for wasm32-wasip2, or with a toolchain of WASI 0.2. With jco's QuickJS: --backend-qjs-disable-async; with componentize-py: functions without async, as in the contract's wit/; with Rust: --target wasm32-wasip2
          wasi:cli/enviroment@0.2.0: Sandmill has no such interface of WASI 0.2 (the nearest is wasi:cli/environment): update or change the toolchain, or leave out the library that needs it
          wasi:clocks/timezone@0.2.0: Sandmill has no such interface of WASI 0.2: update or change the toolchain, or leave out the library that needs it
          wasi:http/outgoing-handler@0.2.4: it is for HTTP, and entry scripts have no network: pass the data as an input or side input, and leave the HTTP client out of the build
          wasi:nn/inference@0.2.0-rc-2024-08-19: it is wasi:nn 0.2.0-rc-2024-08-19, and this Sandmill grants only wasi:nn 0.2.0-rc-2024-10-28, as versions of this draft are incompatible: build with bindings of that version, which is in the contract's wit/ folder
          wasi:nn/inference: it is wasi:nn without a version, and this Sandmill grants only wasi:nn 0.2.0-rc-2024-10-28, as versions of this draft are incompatible: build with bindings of that version, which is in the contract's wit/ folder
          wasi:nn/training@0.2.0-rc-2024-10-28: wasi:nn 0.2.0-rc-2024-10-28 has no such interface; it has tensor, graph, inference and errors
          sandmill:entry/models@1.0.0: it is version 1.0.0 of the contract, and this Sandmill supports versions 0.1 and 0.2: build with an SDK of such a version
          env: nothing of that name is granted; an entry script may import sandmill:entry/host and models, wasi:nn and WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out the library that needs it
        ");
    }
}
