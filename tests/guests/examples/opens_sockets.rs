//! A hostile guest: imports `wasi:sockets` and tries to open sockets, through wit-bindgen without the SDK,
//! because the standard library has no sockets for wasm32-wasip1. Returns a row for each item, with the
//! results of all attempts joined by ` | `: `WHAT=denied: CODE` or `WHAT=GOT IT`.

mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package test:sockets@1.0.0;

            world sockets {
                include sandmill:entry/run-only@0.2.0;
                import wasi:sockets/instance-network@0.2.12;
                import wasi:sockets/tcp-create-socket@0.2.12;
                import wasi:sockets/udp-create-socket@0.2.12;
                import wasi:sockets/ip-name-lookup@0.2.12;
            }
        "#,
        path: "../../wit",
        world: "test:sockets/sockets",
        generate_all,
    });
}

use bindings::exports::sandmill::entry::entry_run::Guest;
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};
use bindings::wasi::sockets::network::{
    ErrorCode, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress,
};
use bindings::wasi::sockets::{
    instance_network, ip_name_lookup, tcp_create_socket, udp_create_socket,
};

struct Component;

impl Guest for Component {
    fn run(batch: MiniBatch, _context: MiniBatchContext) -> Result<Results, String> {
        let MiniBatch::Files(files) = batch else { return Err("this guest takes files".into()) };
        let network = instance_network::instance_network();
        let address =
            |port| IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address: (127, 0, 0, 1) });
        let tcp = || tcp_create_socket::create_tcp_socket(IpAddressFamily::Ipv4);
        let udp = || udp_create_socket::create_udp_socket(IpAddressFamily::Ipv4);
        let reports = [
            report("tcp socket", tcp().map(drop)),
            report(
                "connect",
                tcp().and_then(|s| {
                    s.start_connect(&network, address(80))?;
                    s.finish_connect().map(drop)
                }),
            ),
            report(
                "listen",
                tcp().and_then(|s| {
                    s.start_bind(&network, address(0))?;
                    s.finish_bind()?;
                    s.start_listen()
                }),
            ),
            report("udp socket", udp().map(drop)),
            report("udp bind", udp().and_then(|s| s.start_bind(&network, address(0)))),
            report("look up", ip_name_lookup::resolve_addresses(&network, "localhost").map(drop)),
        ];
        let joined = reports.join(" | ");
        Ok(Results::Rows(files.iter().map(|file| format!("{file}: {joined}")).collect()))
    }
}

fn report(what: &str, result: Result<(), ErrorCode>) -> String {
    match result {
        Ok(()) => format!("{what}=GOT IT"),
        Err(code) => format!("{what}=denied: {}", code.name()),
    }
}

bindings::export!(Component with_types_in bindings);
