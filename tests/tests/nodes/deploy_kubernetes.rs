//! The manifests in `deploy/kubernetes`: their types, and what their containers run, with real brokers, agents and a
//! leader on this machine.

use crate::cluster::{assert_complete, job};
use crate::deploy::make_certificate;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use sandmill_tests::{Broker, TestJob, root, sandmill};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FILES: [&str; 4] = ["secrets.yaml", "broker.yaml", "agents.yaml", "job.yaml"];

/// The objects in a manifest.
fn objects(file: &str) -> Vec<Value> {
    let script =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let read = Command::new(root().join("target/venv/bin/python"))
        .args(["-c", script])
        .arg(root().join("deploy/kubernetes").join(file))
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).unwrap()
}

fn all_objects() -> Vec<Value> {
    FILES.iter().flat_map(|file| objects(file)).collect()
}

/// The object of this kind and name.
fn object(kind: &str, name: &str) -> Value {
    let is_it = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
    all_objects().into_iter().find(is_it).unwrap_or_else(|| panic!("{kind} {name}"))
}

/// Fails unless Kubernetes knows each field of the object, and the object has all that its kind requires.
#[track_caller]
fn check<T: DeserializeOwned + Serialize>(found: &Value) {
    let typed: T =
        serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found:#}"));
    // Fields that the type does not have are lost on the way.
    assert_eq!(serde_json::to_value(&typed).unwrap(), *found);
}

#[test]
fn the_manifests_are_valid() {
    for found in all_objects() {
        match found["kind"].as_str().unwrap() {
            "ConfigMap" => check::<ConfigMap>(&found),
            "Job" => check::<Job>(&found),
            "PersistentVolumeClaim" => check::<PersistentVolumeClaim>(&found),
            "PodDisruptionBudget" => check::<PodDisruptionBudget>(&found),
            "Secret" => check::<Secret>(&found),
            "Service" => check::<Service>(&found),
            "StatefulSet" => check::<StatefulSet>(&found),
            kind => panic!("a manifest of the kind {kind}"),
        }
    }
}

/// The configuration of the broker is that of the other deployment, with the logins of the docs.
#[test]
fn the_broker_has_the_logins_of_the_docs() {
    let secret = object("Secret", "nats-logins");
    let logins = secret["stringData"]["authorization.conf"].as_str().unwrap();
    let config = fs::read_to_string(root().join("deploy/nats-server.conf")).unwrap();
    let expected = config.replace("\"...\"", "\"PASSWORD\"");
    assert!(expected.ends_with(logins), "{logins}");
}

/// Each reference to a volume, a secret or a config map leads to one.
#[test]
fn what_the_pods_name_exists() {
    for (kind, name) in
        [("StatefulSet", "nats"), ("StatefulSet", "sandmill-agent"), ("Job", "nightly")]
    {
        let pod = object(kind, name)["spec"]["template"]["spec"].clone();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let volumes = list(&pod["volumes"]);
        for container in list(&pod["containers"]) {
            for mount in list(&container["volumeMounts"]) {
                let is_it = |volume: &&Value| volume["name"] == mount["name"];
                assert!(volumes.iter().any(|volume| is_it(&volume)), "{name}: {mount}");
            }
            for source in list(&container["envFrom"]) {
                object("Secret", source["secretRef"]["name"].as_str().unwrap());
            }
            let image = container["image"].as_str().unwrap();
            let host = image.split('/').next().unwrap();
            assert!(!image.contains('/') || !host.contains('.'), "{image} names a registry");
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(security["capabilities"]["drop"][0], "ALL", "{name}");
        }
        for volume in volumes {
            if let Some(config) = volume["configMap"]["name"].as_str() {
                object("ConfigMap", config);
            }
            if let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() {
                object("PersistentVolumeClaim", claim);
            }
            // The certificate is made by a command of the README.
            if let Some(secret) = volume["secret"]["secretName"].as_str()
                && secret != "nats-tls"
            {
                object("Secret", secret);
            }
        }
    }
}

/// The folders of the containers, on this machine.
struct Places(Vec<(&'static str, String)>);

impl Places {
    fn put(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// The command of the first container of a pod, with its environment. `own`: what the pod's name and secrets give.
fn command_of(pod: &Value, places: &Places, own: &BTreeMap<&str, String>) -> Command {
    let container = &pod["containers"][0];
    let mut environment = own.clone();
    for variable in container["env"].as_array().unwrap() {
        if let Some(value) = variable["value"].as_str() {
            environment.insert(variable["name"].as_str().unwrap(), places.put(value));
        }
    }
    let mut command = Command::new(sandmill());
    for argument in container["args"].as_array().unwrap() {
        let argument =
            own.iter().fold(argument.as_str().unwrap().to_owned(), |text, (name, value)| {
                text.replace(&format!("$({name})"), value)
            });
        command.arg(places.put(&argument));
    }
    command.envs(environment).stdin(Stdio::null());
    command
}

struct Ends(Vec<Child>);

impl Drop for Ends {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The broker's configuration, with files in this folder, and with the ports of the test.
fn broker_config(folder: &Path) -> String {
    let config = object("ConfigMap", "nats-config");
    let config = config["data"]["nats.conf"].as_str().unwrap().to_owned();
    let logins = object("Secret", "nats-logins");
    fs::create_dir(folder.join("nats-logins")).unwrap();
    fs::write(
        folder.join("nats-logins/authorization.conf"),
        logins["stringData"]["authorization.conf"].as_str().unwrap(),
    )
    .unwrap();
    config.replace("/etc/", &format!("{}/", folder.display()))
}

#[test]
fn a_job_runs_with_what_the_pods_run() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let tls = base.join("nats-tls");
    fs::create_dir(&tls).unwrap();
    if !make_certificate(&tls) {
        return;
    }
    for (from, to) in
        [("broker.crt", "tls.crt"), ("broker.key", "tls.key"), ("broker.crt", "ca.crt")]
    {
        fs::copy(tls.join(from), tls.join(to)).unwrap();
    }
    let config = broker_config(&base);
    let checked = base.join("nats-config");
    fs::create_dir(&checked).unwrap();
    fs::write(checked.join("nats.conf"), &config).unwrap();
    let tested = Command::new(root().join("target/venv/bin/nats-server"))
        .args(["-t", "-c"])
        .arg(checked.join("nats.conf"))
        .env("POD_NAME", "nats-0")
        .output()
        .unwrap();
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    // The broker of the test has its own name and ports, and is alone.
    let (_, rest) = config.split_once("tls {").unwrap();
    let (tls_block, rest) = rest.split_once("cluster {").unwrap();
    let (_, include) = rest.split_once("include \"../").unwrap();
    let (included, _) = include.split_once('"').unwrap();
    let logins = fs::read_to_string(base.join(included)).unwrap();
    let broker = Broker::start_with(&format!("tls {{{tls_block}\n{logins}"));

    let job = job(3, "");
    let shared = job.path("shared").canonicalize().unwrap().display().to_string();
    let file = job.path("job.yaml").canonicalize().unwrap().display().to_string();
    let policy = base.join("policy.yaml");
    let text = object("ConfigMap", "sandmill-policy");
    fs::write(&policy, text["data"]["policy.yaml"].as_str().unwrap()).unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o644)).unwrap();
    let places = |scratch: &str| {
        let scratch = base.join(scratch);
        fs::create_dir_all(&scratch).unwrap();
        Places(vec![
            ("/shared/nightly.yaml", file.clone()),
            ("/shared/jobs", format!("{shared}/jobs")),
            ("/scratch", scratch.display().to_string()),
            ("/etc/nats-tls", tls.display().to_string()),
            ("/etc/sandmill/policy.yaml", policy.display().to_string()),
        ])
    };
    let url = |user: &str, secret: &str| {
        let given = object("Secret", secret);
        let given = given["stringData"]["SANDMILL_BROKER"].as_str().unwrap().to_owned();
        let urls: Vec<String> =
            (0..3).map(|number| format!("tls://{user}:PASSWORD@nats-{number}.nats:4222")).collect();
        assert_eq!(given, urls.join(","));
        broker.url_for(user, "PASSWORD").replace("nats:", "tls:")
    };
    let agents = object("StatefulSet", "sandmill-agent");
    let pod = &agents["spec"]["template"]["spec"];
    let mut running = Ends(Vec::new());
    for number in 0..agents["spec"]["replicas"].as_u64().unwrap() {
        let name = format!("sandmill-agent-{number}");
        let own = BTreeMap::from([
            ("POD_NAME", name.clone()),
            ("SANDMILL_BROKER", url("leading", "sandmill-agent")),
        ]);
        let log = fs::File::create(base.join(format!("{name}.log"))).unwrap();
        let mut command = command_of(pod, &places(&name), &own);
        running.0.push(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }
    let leader = object("Job", "nightly");
    let own = BTreeMap::from([("SANDMILL_BROKER", url("leader", "sandmill-leader"))]);
    let mut command = command_of(&leader["spec"]["template"]["spec"], &places("leader"), &own);
    let done = command.current_dir(job.dir()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    let logs: String = (0..3)
        .map(|number| {
            fs::read_to_string(base.join(format!("sandmill-agent-{number}.log"))).unwrap()
        })
        .collect();
    assert!(done.status.success(), "{said}\n{logs}");
    assert!(said.contains("(sandmill-agent-2) takes part"), "{said}\n{logs}");
    let ran = TestJob::command(job, &["version"]);
    assert_complete(&ran);
}
