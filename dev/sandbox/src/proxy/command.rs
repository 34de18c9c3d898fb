//! `fedgate-sandbox hub-proxy`: runs the front as a process of its own.

use super::{connection::Connection, hub::Hub};
use crate::{
    child::StandInArgs,
    front::{
        serve::{Caller, serve},
        upstream::{FRONT_PROXY, Pki, Upstream, forwarder},
    },
    users::Own,
};
use std::sync::Arc;

/// Serves for ever.
pub(crate) async fn play(args: &StandInArgs) -> anyhow::Result<()> {
    args.begin("this is fedgate's STAND-IN for Karmada's proxy of Clusters");
    let own = Own::HubControllers;
    let hub = Arc::new(Hub {
        server: Upstream::of(&args.kubeconfig(own, "hub")).await?,
        members: Upstream::all(args, own, &args.cells).await?,
    });
    let pki = Pki::of(args);
    let as_front_proxy = pki.connector(Some(FRONT_PROXY))?;
    let as_nobody = pki.connector(None)?;
    let connection = move |caller: Caller| {
        let connector = match &caller {
            Caller::User(_) => &as_front_proxy,
            Caller::Nobody | Caller::Unproven => &as_nobody,
        };
        let connection = Arc::new(Connection {
            hub: Arc::clone(&hub),
            forwarder: forwarder(connector),
            caller,
        });
        move |request| {
            let connection = Arc::clone(&connection);
            async move { connection.answer(request).await }
        }
    };
    serve(args.port, pki.server()?, connection).await
}
