//! Access to stores without the user's keys: with the identity of a machine, a pod or a service account. Also
//! the certificates that TLS trusts. A server imitates the clouds.

use insta::assert_snapshot;
use sandmill_tests::{Ran, Server, TestJob, guest};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The server, and the folder with its keys.
struct Clouds {
    server: Server,
    folder: TempDir,
}

impl Clouds {
    fn new(is_secure: bool) -> Self {
        let folder = TempDir::new().expect("a folder for keys");
        Self { server: Server::clouds(folder.path(), is_secure), folder }
    }

    /// The URL for TLS. The server's certificate is for the name `localhost`.
    fn secure_url(&self) -> String {
        format!("https://localhost:{}", self.server.port)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// A job over files of a datastore, or of a URL.
fn job(inputs: &str, stores: &str) -> TestJob {
    let job = TestJob::new(&guest("echo_files"))
        .yaml(&format!("inputs: {{t: {inputs}}}\nprocess_count_per_node: 1\nerror_threshold: -1"));
    job.datastores("1 MB", stores)
}

/// Checks that the job read all objects, and that no secret appears anywhere.
fn assert_all_read(ran: &Ran) {
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2"]);
    assert_no_secrets(ran);
}

fn assert_no_secrets(ran: &Ran) {
    assert!(!ran.stdout.contains("hushhush") && !ran.stderr.contains("hushhush"), "{ran}");
    let files = walk(&ran.dir().join("job")).into_iter().chain(walk(&ran.dir().join("objects")));
    for file in files {
        let bytes = fs::read(&file).unwrap_or_default();
        for secret in ["hushhush", "PRIVATE KEY"] {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{} holds a secret", file.display());
        }
    }
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_certificate_must_be_trusted() {
    let clouds = Clouds::new(true);
    let url = clouds.secure_url();
    let web =
        |name: &str| job(&format!("{{paths: [{name}/web/in/a.txt, {name}/web/in/b.txt]}}"), "");
    assert_all_read(&web(&url).env("SSL_CERT_FILE", &clouds.path("ca.pem")).run(&[]));
    let ran = web(&url).run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.stderr.replace(&clouds.server.port.to_string(), "[port]"), @"
    input 't': inspecting https://localhost:[port]/web/in/
    error: input 't': reading a.txt of https://localhost:[port]/web/in/ failed: no trusted authority vouches for this server under this name; check the address, or set SSL_CERT_FILE to a file with the certificate of its authority (HTTP error: error sending request: client error (Connect): invalid peer certificate: UnknownIssuer)
    ");
    // The certificate is for another name.
    let ran = web(&url.replace("localhost", "127.0.0.1"))
        .env("SSL_CERT_FILE", &clouds.path("ca.pem"))
        .run(&[]);
    ran.exits_with(2);
    assert_snapshot!(ran.stderr.replace(&clouds.server.port.to_string(), "[port]"), @r#"
    input 't': inspecting https://127.0.0.1:[port]/web/in/
    error: input 't': reading a.txt of https://127.0.0.1:[port]/web/in/ failed: no trusted authority vouches for this server under this name; check the address, or set SSL_CERT_FILE to a file with the certificate of its authority (HTTP error: error sending request: client error (Connect): invalid peer certificate: certificate not valid for name "127.0.0.1"; certificate is only valid for DnsName("localhost"))
    "#);
}

#[test]
fn a_service_account_gives_access_to_google() {
    let clouds = Clouds::new(false);
    let url = clouds.server.url();
    let stores = |account: &str| {
        format!("  g: {{type: gcs, bucket: gcs, endpoint: '{url}', service_account: {account}}}\n")
    };
    let own = stores(&clouds.path("account.json"));
    let ran = job("{path: in/, datastore: g}", &own).yaml("output: datastore://g/out/").run(&[]);
    assert_all_read(&ran);
    let rows = clouds.server.get("/put/out/parallel_run_step.txt");
    assert_eq!(rows.lines().count(), 2, "{rows}");
    // The input is a URL, and the credentials come from the environment.
    let ran = job("gs://gcs/in/*.txt", "")
        .env("GOOGLE_APPLICATION_CREDENTIALS", &clouds.path("account.json"))
        .env("GOOGLE_BASE_URL", &url)
        .run(&[]);
    assert_all_read(&ran);
    // The key belongs to another service account.
    let others = Clouds::new(false);
    let ran = job("{path: in/, datastore: g}", &stores(&others.path("account.json"))).run(&[]);
    ran.exits_with(2);
    ran.says("was refused, using the credentials of datastore g");
    assert_no_secrets(&ran);
}

#[test]
fn the_identity_of_a_google_machine_is_used() {
    let clouds = Clouds::new(false);
    let url = clouds.server.url();
    let machine = |job: TestJob| {
        let host = format!("127.0.0.1:{}", clouds.server.port);
        job.env("GCE_METADATA_HOST", &host).run(&[])
    };
    let stores =
        format!("  g: {{type: gcs, bucket: gcs, endpoint: '{url}', managed_identity: true}}\n");
    assert_all_read(&machine(job("{path: in/, datastore: g}", &stores)));
    assert_all_read(&machine(job("gs://gcs/in/", "").env("GOOGLE_BASE_URL", &url)));
}

#[test]
fn the_identity_of_an_azure_application_is_used() {
    let clouds = Clouds::new(false);
    let url = clouds.server.url();
    let machine = |job: TestJob, header: &str| {
        job.env("IDENTITY_ENDPOINT", &format!("{url}/msi/token"))
            .env("IDENTITY_HEADER", header)
            .run(&[])
    };
    let stores = format!(
        "  z: {{type: azure, account: acc, container: blobs, endpoint: '{url}/acc', managed_identity: true}}\n"
    );
    let named = || job("{path: in/, datastore: z}", &stores);
    assert_all_read(&machine(named(), "hushhush-header"));
    let by_address = job("az://blobs/in/", "")
        .env("AZURE_STORAGE_ACCOUNT_NAME", "acc")
        .env("AZURE_STORAGE_ENDPOINT", &format!("{url}/acc"));
    assert_all_read(&machine(by_address, "hushhush-header"));
    let ran = machine(named(), "hushhush-of-another");
    ran.exits_with(2);
    assert_no_secrets(&ran);
}

#[test]
fn identities_of_amazon_machines_pods_and_roles_are_used() {
    let clouds = Clouds::new(false);
    let url = clouds.server.url();
    let stores =
        format!("  s: {{type: s3, bucket: aws, endpoint: '{url}', managed_identity: true}}\n");
    let named = || job("{path: in/, datastore: s}", &stores);
    let by_address = || job("s3://aws/in/", "").env("AWS_ENDPOINT_URL", &url);
    for job in [named(), by_address()] {
        assert_all_read(&job.env("AWS_METADATA_ENDPOINT", &url).run(&[]));
    }
    for job in [named(), by_address()] {
        let job = job.file("pod.token", "hushhush-pod");
        let token = job.path("pod.token").display().to_string();
        let ran = job
            .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{url}/pod"))
            .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token)
            .run(&[]);
        assert_all_read(&ran);
    }
    // Sandmill uses an STS server only with TLS, so this server has a certificate.
    let clouds = Clouds::new(true);
    let url = clouds.secure_url();
    let role = |job: TestJob| {
        job.env("SSL_CERT_FILE", &clouds.path("ca.pem")).env("AWS_ENDPOINT_URL_STS", &url).run(&[])
    };
    fs::write(clouds.folder.path().join("web.token"), "hushhush-web").expect("a token");
    let token = clouds.path("web.token");
    let stores = format!(
        "  s: {{type: s3, bucket: aws, endpoint: '{url}', role_arn: 'arn:aws:iam::1:role/r', token_file: {token}}}\n"
    );
    assert_all_read(&role(job("{path: in/, datastore: s}", &stores)));
    let by_address = job("s3://aws/in/", "")
        .env("AWS_ENDPOINT_URL", &url)
        .env("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", &token);
    assert_all_read(&role(by_address));
}
