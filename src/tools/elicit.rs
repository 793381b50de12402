//! Asking a client's user for an approval, where the rig file lets the answer count as a person's (`approve_by =
//! ["elicitation"]`): in sessions in which the client can be asked at all.

use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, ServerRequest,
};
use rmcp::service::PeerRequestOptions;
use rmcp::{Peer, RoleServer};

use super::approvals::reasons;
use crate::actor::{Decision, RigHandle};
use crate::model::{Approval, Caller, Way, harmless};

/// What the form calls its one field.
const FIELD: &str = "approve";

/// Whether this client's user can be asked: it said so, and its session carries requests in both directions. One over
/// HTTP stands on no session, so that nobody could tell whose answer it is.
pub(crate) fn can_ask(peer: &Peer<RoleServer>, way: Way, modern: bool) -> bool {
    let sessions = matches!(way, Way::Stdio | Way::Relay) && !modern;
    let offered = || peer.peer_info().and_then(|info| info.capabilities.elicitation.clone());
    // Neither named means forms: the first version of it had nothing else.
    sessions && offered().is_some_and(|e| e.form.is_some() || e.url.is_none())
}

/// Asks, and hands a yes or no on. `true` when it was decided, here or elsewhere; `false` when the client gave no
/// answer, so that somebody at the rig has to.
pub(crate) async fn ask(peer: &Peer<RoleServer>, handle: &RigHandle, caller: &Caller, approval: &Approval) -> bool {
    let Some(params) = form(approval) else { return false };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let Ok(mut asked) = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await else {
        return false;
    };
    let mut changes = handle.changes();
    let over = async { changes.wait_for(|s| s.approvals().all(|a| a.id != approval.id)).await.map(|_| ()) };
    let answer = tokio::select! {
        answer = &mut asked.rx => answer,
        _ = over => {
            // Decided at the rig, or over: the question must not stand there any longer.
            let _ = asked.cancel(Some("it is decided".into())).await;
            return true;
        }
    };
    let Ok(Ok(ClientResult::ElicitResult(result))) = answer else { return false };
    let Some(yes) = said(&result) else { return false };
    let by = format!("the user of {}", caller.client);
    let decision = Decision { yes, by, reason: None, elicited: true };
    match handle.decide(caller, &approval.id, decision) {
        Ok(mut ticket) => ticket.wait().await.is_ok(),
        Err(_) => false,
    }
}

/// Yes only where the field says so: a client that accepts an empty form has shown it to nobody. A dialog that was
/// closed is no answer.
fn said(result: &ElicitResult) -> Option<bool> {
    let field = result.content.as_ref().and_then(|c| c.get(FIELD)).and_then(serde_json::Value::as_bool);
    match (&result.action, field) {
        (ElicitationAction::Accept, Some(yes)) => Some(yes),
        (ElicitationAction::Decline, _) => Some(false),
        _ => None,
    }
}

fn form(approval: &Approval) -> Option<ElicitRequestParams> {
    let text = format!(
        "Approve this motion or change of the lab's hardware? {}. {} Say yes only if you can see the rig, or know that it \
         is safe.",
        approval.what,
        reasons(&approval.asks)
    );
    let schema = ElicitationSchema::builder()
        .required_bool_with(FIELD, |b| b.title("Approve").description("Yes: it is carried out now. No: it is denied."))
        .build()
        .ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message: harmless(&text), requested_schema: schema })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_filled_in_yes_is_one() {
        let accept = |content| ElicitResult::new(ElicitationAction::Accept).with_content(content);
        assert_eq!(said(&accept(json!({ "approve": true }))), Some(true));
        assert_eq!(said(&accept(json!({ "approve": false }))), Some(false));
        for nothing in [json!({}), json!({ "approve": "true" }), json!({ "approve": 1 }), json!(true), json!(null)] {
            assert_eq!(said(&accept(nothing.clone())), None, "{nothing}");
        }
        assert_eq!(said(&ElicitResult::new(ElicitationAction::Accept)), None);
        assert_eq!(said(&ElicitResult::new(ElicitationAction::Decline)), Some(false));
        assert_eq!(said(&ElicitResult::new(ElicitationAction::Cancel)), None);
        let both = ElicitResult::new(ElicitationAction::Cancel).with_content(json!({ "approve": true }));
        assert_eq!(said(&both), None);
    }
}
