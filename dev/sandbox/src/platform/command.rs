//! `fedgate-sandbox platform`: runs the stand-in as a process of its own.

use super::{CORE, SPARE, controller::control, handle::Handler, switches::Switches, upstreams::Upstreams};
use crate::{
    child::StandInArgs,
    front::{
        serve::{Caller, serve},
        upstream::{FRONT_PROXY, Pki, Upstream, forwarder},
    },
    users::Own,
};
use anyhow::bail;
use std::{convert::identity, sync::Arc};

/// Serves for ever. With Milo's own API server as the core, that takes all paths as they are.
pub(crate) async fn play(args: &StandInArgs) -> anyhow::Result<()> {
    args.begin(if args.milo {
        "this plays Milo's controllers and faults before Milo's own API server"
    } else {
        "this is fedgate's STAND-IN for Milo"
    });
    let file = |plane: &str| args.kubeconfig(Own::Platform, plane);
    let spare = if args.milo {
        None
    } else {
        Some(Upstream::of(&file(SPARE)).await?)
    };
    let upstreams = Arc::new(Upstreams {
        core: Upstream::of(&file(CORE)).await?,
        spare,
        projects: Upstream::all(args, Own::Platform, &args.projects).await?,
    });
    let pki = Pki::of(args);
    let switches = Arc::new(Switches::new());
    let handler = Arc::new(Handler {
        upstreams: Arc::clone(&upstreams),
        switches: Arc::clone(&switches),
        forwarder: forwarder(&pki.connector(Some(FRONT_PROXY))?),
    });
    let connection = move |caller: Caller| {
        let (handler, caller) = (Arc::clone(&handler), Arc::new(caller));
        move |request| {
            let (handler, caller) = (Arc::clone(&handler), Arc::clone(&caller));
            async move { handler.answer(&caller, request).await.unwrap_or_else(identity) }
        }
    };
    tokio::select! {
        never = serve(args.port, pki.server()?, connection) => never,
        _ = tokio::spawn(control(upstreams, switches)) => {
            bail!("the project controller of the stand-in broke off; read its log")
        }
    }
}
