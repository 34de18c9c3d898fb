//! The mutations that a named test must catch: each takes one safeguard away.
//!
//! `tests/layers.rs` holds that each still applies to the sources and names a test that is there; `make verify-mutants` sees
//! each caught.

/// One safeguard, and the code without it.
pub(crate) struct Mutant {
    /// Its name.
    pub name: &'static str,
    /// The source file.
    pub file: &'static str,
    /// An expression that occurs there once.
    pub original: &'static str,
    /// What stands there in its place.
    pub mutated: &'static str,
    /// The unit test that must fail: `engine/module::test` is `module::test` of `crates/engine`.
    pub caught_by: &'static str,
}

macro_rules! mutants {
    ($($file:literal { $($name:ident: $original:literal => $mutated:literal, $test:literal;)+ })+) => {
        /// All of them.
        pub(crate) const MUTANTS: &[Mutant] = &[$($(Mutant {
            name: stringify!($name),
            file: $file,
            original: $original,
            mutated: $mutated,
            caught_by: $test,
        },)+)+];
    };
}

mutants! {
    "crates/gateway/src/federator/decide/mod.rs" {
        a_refused_spec_stops_the_way_to_its_member:
            "is_valid || retains_member(s, source)" => "is_valid",
            "gateway/federator::tests::lanes::refused::it_leaves_a_member_that_has_gone_before_one_joins_under_its_name";
        copy_whose_write_had_no_answer_not_asked_for:
            "s.arriving.as_ref().is_some_and(was_elsewhere)" => "false",
            "gateway/federator::tests::city::the_hub_is_asked_for_a_copy_whose_write_had_no_answer";
        copy_before_its_city_is_ready:
            "s.hub_state == HubNamespaceState::Ours && s.readiness.is_ready" => "s.hub_state == HubNamespaceState::Ours",
            "gateway/federator::tests::nothing_goes_to_the_hub_before_namespace_policy_and_companions_are_there";
        copy_before_it_is_announced:
            "annotations.is_empty() && finalizers == before" => "true",
            "gateway/federator::tests::finalizer_and_annotation_come_before_anything_on_the_hub";
    }
    "crates/gateway/src/federator/decide/deletion.rs" {
        no_wait_for_the_binding:
            "s.binding.is_some() && s.copy.as_ref().is_none_or(|c| mine(&c)) && !released" => "false",
            "gateway/federator::tests::deletion::deletion_goes_copy_binding_companions_policy_finalizer";
        no_word_of_the_hub_before_it_lets_go:
            "!is_settled(s, memory) && !released" => "false",
            "gateway/federator::tests::deletion::without_a_binding_that_was_seen_the_hub_says_that_nothing_is_left";
        no_wait_for_companions_and_policy:
            "!released && (s.companions.hold || s.readiness.is_policy_leaving)" => "false",
            "gateway/federator::tests::deletion::deletion_goes_copy_binding_companions_policy_finalizer";
    }
    "crates/gateway/src/federator/arrival.rs" {
        a_refused_status_says_that_no_copy_came:
            "failure.plane == Plane::Hub && !UNKNOWN.contains(&failure.category)" => "!UNKNOWN.contains(&failure.category)",
            "gateway/federator::tests::index::a_copy_on_its_way_keeps_its_city_and_is_not_sent_where_that_is_going";
        binding_not_asked_for:
            "ctx.executor.any(&binding, Selector::Name).await?" => "false",
            "gateway/federator::tests::index::a_deployment_leaves_once_the_hub_says_that_nothing_of_it_is_left";
        route_of_a_copy_on_its_way_given_up:
            "index.intents.arriving.insert(copy, destination.clone())" => "None",
            "gateway/federator::tests::index::a_copy_on_its_way_keeps_its_city_and_is_not_sent_where_that_is_going";
        copy_sent_to_a_city_that_is_taken_away:
            "index.is_ready(s.kind, &copy.hub, destination)" => "true",
            "gateway/federator::tests::index::a_copy_on_its_way_keeps_its_city_and_is_not_sent_where_that_is_going";
    }
    "crates/gateway/src/federator/decide/copy.rs" {
        copy_before_its_companions:
            "s.companions.allow_write()" => "true",
            "gateway/federator::tests::nothing_goes_to_the_hub_before_namespace_policy_and_companions_are_there";
        copy_of_an_earlier_deployment_kept:
            "from.is_some_and(|uid| *uid != source.uid)" => "false",
            "gateway/federator::tests::a_copy_of_an_earlier_deployment_is_deleted_first";
        city_move_keeps_the_claim:
            "copy.digest.routed != Routed::Nowhere && copy.digest.route().as_ref() != Some(&destination.route)" => "false",
            "gateway/federator::tests::city::a_city_move_is_one_patch_that_takes_the_claim_off";
        claim_repair_at_once:
            "now.instant < due" => "false",
            "gateway/federator::tests::city::a_wrong_claim_is_repaired_after_ten_seconds_and_then_at_most_every_thirty";
        edit_of_a_fixed_place_carried:
            "differs && s.asks_for.is_none()" => "differs",
            "gateway/federator::tests::fixed::a_place_that_is_edited_changes_nothing_once_a_copy_is_there";
        copy_deleted_without_its_uid:
            "Write::delete(&copy.uid)" => "Write::delete(\"\")",
            "gateway/federator::tests::a_copy_of_an_earlier_deployment_is_deleted_first";
    }
    "crates/gateway/src/federator/conditions.rs" {
        older_generation_carried:
            "carried > source.digest.generation" => "false",
            "gateway/federator::tests::an_older_generation_is_carried_and_said_only_if_the_project_confirms_it";
        guarded_object_deleted:
            "source.digest.ending.as_ref()?.guard?" => "None::<usize>?",
            "gateway/federator::tests::lanes::a_guard_holds_a_deletion_before_anything_is_asked_of_the_hub";
    }
    "crates/gateway/src/single_member/decide/stage.rs" {
        an_object_strays_before_bindings_are_read:
            "!self.complete" => "false",
            "gateway/federator::tests::lanes::resumed::an_object_is_not_strayed_before_bindings_are_read";
        the_end_of_an_earlier_object_ends_a_new_one:
            "item?.deleted? > self.copy?.digest.created + OWN_AFTER" => "item?.deleted.is_some()",
            "gateway/federator::tests::lanes::remade::a_deletion_that_may_have_begun_before_the_copy_was_created_is_no_end";
        rounds_of_a_deletion_have_no_pause:
            "TAKEOVER_EVERY.checked_sub(waited).filter(|left| !left.is_zero())" => "None",
            "gateway/federator::tests::lanes::an_object_that_karmada_no_longer_manages_is_taken_over_before_it_is_deleted";
        a_refused_spec_is_taken_for_furnished:
            "self.spec.fits" => "true",
            "gateway/federator::tests::lanes::refused::a_first_delivery_waits_for_a_spec_that_fits";
        delivered_before_its_namespace_is_kept:
            "is_there && self.at.is_namespace_preserved && self.may_be_delivered(pin)" => "is_there && self.may_be_delivered(pin)",
            "gateway/federator::tests::lanes::a_pinned_copy_is_delivered_only_when_it_is_given_to_its_member_alone";
        delivered_before_its_companions:
            "self.at.is_namespace_preserved && self.may_be_delivered(pin)" => "self.at.is_namespace_preserved",
            "gateway/federator::tests::lanes::a_copy_waits_for_the_companions_that_it_needs";
        preserved_before_it_was_applied:
            "if pin.delivered {\n            Stage::TakeOver\n        } else {\n            Stage::Deliver\n        }" => "if pin.delivered { Stage::TakeOver } else { Stage::Preserve }",
            "gateway/federator::tests::lanes::a_pinned_copy_is_delivered_only_when_it_is_given_to_its_member_alone";
        delivered_to_a_cluster_that_joined_anew:
            "self.at.cluster" => "Some(PinnedCluster::Same)",
            "gateway/federator::tests::lanes::nothing_is_delivered_to_a_cluster_that_has_joined_anew_until_an_operator_says_it_is_the_same";
        suspended_object_dispatched:
            "self.source.digest.suspended" => "false",
            "gateway/federator::tests::lanes::a_suspended_object_is_held_and_its_edits_go_with_the_lane_that_delivers_them";
        taken_over_all_the_time:
            "self.now.instant < due" => "false",
            "gateway/federator::tests::lanes::what_karmada_has_let_go_of_is_taken_over_again_and_not_too_often";
    }
    "crates/gateway/src/platform/decide.rs" {
        objects_of_a_project_are_overwritten:
            "!of.labelled && !is_of_object" => "false",
            "gateway/platform::tests::an_object_of_the_project_itself_is_left_alone";
        objects_of_a_project_are_deleted:
            "!projection.digest.labelled || projection.deleting" => "projection.deleting",
            "gateway/platform::tests::an_object_of_the_project_itself_is_left_alone";
        deleted_projections_are_written:
            "projection.deleting || is_same" => "is_same",
            "gateway/platform::tests::what_is_being_deleted_is_neither_written_nor_made_again";
    }
    "crates/gateway/src/index/platform.rs" {
        incomplete_lists_are_compared:
            "project.is_some_and(|project| project.platform[kind].rows.synced())" => "project.is_some()",
            "gateway/platform::tests::nothing_is_compared_before_both_lists_are_complete";
    }
    "crates/gateway/src/index/single_member/pin.rs" {
        rounds_of_all_times_are_counted:
            "at.duration_since(last.at) <= REMADE_WITHIN" => "true",
            "gateway/federator::tests::lanes::remade::rounds_that_are_more_than_an_hour_apart_do_not_withhold_an_object";
        what_was_never_delivered_is_waited_for:
            "self.delivered" => "true",
            "gateway/single_member::probe::tests::an_object_of_another_template_is_not_ours";
        an_object_of_a_copy_that_was_forgotten_is_ours:
            "(is_named || self.copy_uids.len() < MOST_COPIES).then_some(is_named)" => "Some(is_named || self.copy_uids.len() >= MOST_COPIES)",
            "gateway/single_member::probe::tests::an_object_of_another_template_is_not_ours";
    }
    "crates/gateway/src/single_member/observe.rs" {
        a_record_is_written_whatever_its_version_is:
            r#"json!({"metadata": {"uid": &**uid, "resourceVersion": version}, "data": data})"# => r#"json!({"metadata": {"uid": &**uid}, "data": data})"#,
            "gateway/federator::tests::lanes::a_record_that_is_there_is_written_by_its_version";
    }
    "crates/gateway/src/single_member/probe/ask.rs" {
        absence_by_another_group:
            "of.group == resource.group" => "true",
            "gateway/single_member::probe::tests::only_the_members_own_word_about_this_object_proves_that_it_is_gone";
    }
    "crates/gateway/src/policies/decide.rs" {
        policy_deleted_as_it_is_now:
            "Some(row.resource_version())" => "None",
            "gateway/policies::tests::at_rest_nothing_is_written_and_an_unused_policy_goes_by_version";
        policy_deleted_though_needed:
            "!s.needed.contains(name)" => "true",
            "gateway/policies::tests::a_policy_is_let_go_only_when_its_project_can_be_seen";
        terminating_policy_restored:
            "!row.deleting && row.digest.spec != Some(policy_spec::digest(spec))" => "row.digest.spec != Some(policy_spec::digest(spec))",
            "gateway/policies::tests::a_policy_that_terminates_is_awaited";
        policy_relied_on_while_it_goes:
            "matches!(e.write, Write::Delete { .. })" => "false",
            "gateway/policies::tests::nobody_may_rely_on_a_policy_that_is_taken_away";
    }
    "crates/gateway/src/namespaces/decide/mod.rs" {
        city_leaves_the_set_while_a_write_back_may_be_there:
            "lingered < linger || s.unlabelled" => "lingered < linger",
            "gateway/namespaces::decide::tests::a_city_that_was_left_lingers_then_goes_unless_a_write_back_may_be_there";
        city_leaves_the_set_at_once:
            "linger.saturating_sub(lingered)" => "Duration::ZERO",
            "gateway/namespaces::decide::tests::a_city_that_was_left_lingers_then_goes_unless_a_write_back_may_be_there";
        anothers_namespace_taken:
            "r.digest.is_foreign(&s.cluster, &s.namespace)" => "false",
            "gateway/namespaces::decide::tests::a_peers_namespace_is_taken_in_if_it_is_this_tenants_and_left_alone_otherwise";
        wider_set_keeps_the_claim:
            "metadata[\"annotations\"][keys::CLUSTER_CLAIM_NAME] = Value::Null" => "()",
            "gateway/namespaces::decide::tests::a_wider_set_takes_the_claim_off_in_the_same_patch";
        set_beyond_what_the_project_may_use:
            "!sets.has_room(&set)" => "false",
            "gateway/namespaces::decide::tests::a_namespace_whose_project_may_have_no_more_sets_stays_where_it_is";
        set_whose_policy_is_being_deleted:
            "row.deleting || sets.is_ending(&policy)" => "row.deleting",
            "gateway/namespaces::decide::tests::a_policy_that_is_being_deleted_is_waited_for_and_the_set_is_noted";
        namespace_moved_unseen:
            "json!({\"uid\": &*row.uid, \"resourceVersion\": row.resource_version()})" => "json!({})",
            "gateway/namespaces::decide::tests::a_wider_set_takes_the_claim_off_in_the_same_patch";
    }
    "crates/gateway/src/namespaces/sets.rs" {
        a_namespace_that_cannot_move_enqueues_itself:
            "*key.name != *hub" => "true",
            "gateway/namespaces::tests::index::sets_that_are_being_sent_count_and_what_was_not_applied_makes_room_again";
        sets_that_are_being_sent_do_not_count:
            "**of == *label" => "false",
            "gateway/namespaces::tests::index::sets_that_are_being_sent_count_and_what_was_not_applied_makes_room_again";
    }
    "crates/gateway/src/queries/cities.rs" {
        code_without_a_cell_enters_a_set:
            "self.hub.secondary.places.serves(city) || there().contains(city)" => "true",
            "gateway/namespaces::tests::index::a_code_without_a_cell_enters_no_set_and_a_cell_that_leaves_takes_none_out";
        cell_that_leaves_takes_its_city_along:
            "there().contains(city)" => "false",
            "gateway/namespaces::tests::index::a_code_without_a_cell_enters_no_set_and_a_cell_that_leaves_takes_none_out";
    }
    "crates/gateway/src/index/derived/proof.rs" {
        city_left_while_clusters_are_not_seen:
            "hub.clusters.proves()" => "true",
            "gateway/namespaces::tests::index::while_clusters_are_not_seen_no_city_is_left_and_what_was_carried_is_not_denied";
    }
    "crates/gateway/src/federator/observe.rs" {
        copy_without_a_member_that_serves_it:
            "self.city_members.api != MemberApi::Fit" => "false",
            "gateway/federator::tests::fixed::a_new_copy_waits_for_a_member_that_serves_its_kind";
        cell_denied_while_clusters_are_not_seen:
            "(unserved || unknown) && !clusters.proves() && (is_copied || !clusters.synced())" => "false",
            "gateway/namespaces::tests::index::while_clusters_are_not_seen_no_city_is_left_and_what_was_carried_is_not_denied";
    }
    "crates/gateway/src/index/apply.rs" {
        end_of_a_policy_wakes_nobody:
            "applied.enqueue(self.namespace_keys_of_set(&set))" => "()",
            "gateway/index::tests::the_end_of_a_city_sets_policy_wakes_those_that_are_to_carry_it";
    }
    "crates/gateway/src/garbage/decide.rs" {
        orphan_by_an_incomplete_list:
            "self.hub_complete && c.orphaned()" => "c.orphaned()",
            "gateway/garbage::tests::decisions::a_copy_that_is_not_proven_an_orphan_stays_and_its_patience_is_forgotten";
        orphan_deleted_at_once:
            "patience.saturating_sub(now.since(since))" => "Duration::ZERO",
            "gateway/garbage::tests::decisions::an_orphan_waits_then_goes_by_its_uid";
        orphan_deleted_without_its_uid:
            "Write::delete(&orphan.uid)" => "Write::delete(\"\")",
            "gateway/garbage::tests::decisions::an_orphan_waits_then_goes_by_its_uid";
        full_namespace_collected:
            "!s.empty" => "false",
            "gateway/garbage::tests::decisions::an_empty_namespace_without_origin_goes_as_seen_after_its_retention";
        used_city_set_collected:
            "!ours || s.used || !s.hub_complete" => "!ours || !s.hub_complete",
            "gateway/garbage::tests::decisions::a_policy_that_is_used_or_not_of_our_shape_is_never_touched";
        city_set_collected_while_it_may_be_arriving:
            "s.sent" => "false",
            "gateway/garbage::tests::decisions::a_city_set_that_was_sent_somewhere_stays_until_it_is_known_where_it_is";
    }
    "crates/gateway/src/garbage/brake.rs" {
        no_brake:
            "self.orphans > 10.max(self.total / 10)" => "false",
            "gateway/garbage::tests::decisions::more_than_ten_and_a_tenth_of_a_projects_copies_put_its_brake_on";
    }
    "crates/gateway/src/garbage/copies.rs" {
        an_orphan_without_a_copy_forgets_that_it_waits:
            "index.pin(kind, &run.key.namespace, &run.key.name).is_some()" => "false",
            "gateway/federator::tests::lanes::replaced::an_orphan_without_a_copy_waits_for_what_its_hub_can_prove";
        orphan_without_a_get:
            "confirm::deployment_gone(run.ctx, &run.key.namespace, origin).await?" => "true",
            "gateway/garbage::tests::confirm::a_copy_goes_only_when_its_project_says_that_its_origin_is_gone";
    }
    "crates/gateway/src/garbage/city_sets.rs" {
        city_set_without_a_list:
            "confirm::is_unused(ctx, &namespaces, keys::CITIES, set).await?" => "true",
            "gateway/garbage::tests::confirm::a_city_set_goes_only_when_the_hub_lists_no_namespace_that_carries_it";
    }
    "crates/gateway/src/projector/decide.rs" {
        ready_of_an_instance_waits_behind_progress:
            "w.serving == projection.serving" => "true",
            "gateway/projector::tests::updates_of_a_projection_are_limited_by_a_token_bucket_and_ready_does_not_wait_behind_progress";
        identity_label_followed:
            "w.cluster.as_deref() != Some(&*cluster) || w.namespace.as_deref() != Some(&*s.namespace)" => "false",
            "gateway/projector::tests::what_is_forged_oversized_or_taken_is_quarantined";
        projection_of_a_dead_deployment:
            "p.plain_owner && owner.is_some_and(|(_, uid)| *uid == source.uid)" => "true",
            "gateway/projector::tests::a_dead_owner_is_replaced_by_the_live_one";
        tenants_own_instance_taken_over:
            "owner.map_or(p.orphaned, |(name, _)| **name == *deployment)" => "true",
            "gateway/projector::tests::what_is_forged_oversized_or_taken_is_quarantined";
        tenants_own_instance_deleted:
            "!ours || projection.deleting" => "projection.deleting",
            "gateway/projector::tests::a_write_back_that_is_gone_takes_its_projection_along_and_no_other";
        projection_gone_with_a_hub_that_was_made_anew:
            "settings.projection_retention.saturating_sub(now.since(since))" => "Duration::ZERO",
            "gateway/projector::tests::a_projection_whose_write_back_was_not_seen_to_go_waits_for_the_hub_and_the_cells";
        write_back_of_an_untied_namespace:
            "!s.is_of_project" => "false",
            "gateway/projector::tests::what_is_missing_is_awaited";
        write_back_of_a_cell_that_left:
            "!s.cells.is_empty()" => "false",
            "gateway/projector::tests::a_cell_that_the_copy_is_not_given_to_has_nothing_to_say";
    }
    "crates/gateway/src/companions/observe.rs" {
        a_companion_may_outgrow_the_limit_of_its_reference:
            "users.size_limit.unwrap_or(references::SIZE_LIMIT)" => "references::SIZE_LIMIT",
            "gateway/federator::tests::adopted::one_that_outgrows_its_references_limit_gets_no_new_data";
        companion_released_before_the_copy_is_gone:
            "*namespace == *owner.namespace && outlives(index, hub, name, absent)" => "false",
            "gateway/companions::tests::a_deployment_that_vanished_keeps_its_companions_until_copy_and_binding_are_gone";
        a_refused_spec_loses_the_companions_of_the_one_before:
            "is_applied && expired.contains(&entry)" => "expired.contains(&entry)",
            "gateway/federator::tests::adopted::a_member_that_refuses_the_new_spec_within_the_time_keeps_one_that_only_the_old_one_names";
        companion_released_before_the_binding_is_gone:
            "index.binding(i, hub, name).is_some()" => "false",
            "gateway/companions::tests::a_deployment_that_vanished_keeps_its_companions_until_copy_and_binding_are_gone";
    }
    "crates/gateway/src/single_member/referrers.rs" {
        an_unreachable_member_has_the_new_spec:
            "pin.is_some_and(|pin| index.is_member_ready(pin))" => "pin.is_some()",
            "gateway/federator::tests::adopted::one_that_is_no_longer_named_stays_until_the_member_has_had_the_new_spec_for_a_while";
        adopted_companion_is_never_kept:
            "Some(DeliveryPolicy::TakeOver(member()))" => "Some(DeliveryPolicy::With([member()].into()))",
            "gateway/federator::tests::adopted::it_is_kept_from_the_first_delivery_of_its_object_on";
        companion_goes_to_a_cluster_that_is_another_one:
            "index.pinned_cluster(pin)" => "PinnedCluster::Same",
            "gateway/federator::tests::shared::one_that_goes_nowhere_is_not_given_to_another_cluster_of_the_members_name";
        adopted_companion_goes_to_a_cluster_that_is_another_one:
            "state == Some(&MemberState::Left)" => "false",
            "gateway/federator::tests::severed::a_cluster_that_leaves_takes_its_companions_out_of_their_lane_before_another_one_joins";
        data_goes_to_a_cluster_that_is_another_one:
            "!self.has(MemberState::Replaced) && !self.has(MemberState::Unknown)" => "true",
            "gateway/federator::tests::severed::one_that_another_cluster_was_given_stays_without_new_data_whatever_it_has_reported";
        data_goes_to_a_cluster_that_is_being_left:
            "given.iter().any(has_left)" => "false",
            "gateway/federator::tests::severed::one_that_karmada_gives_to_the_member_no_more_is_taken_back_and_new_data_waits";
        an_old_binding_gives_a_companion_back:
            "given.as_ref().is_some_and(|policy| policy.reaches(member))" => "true",
            "gateway/federator::tests::severed::one_of_two_members_goes_on_where_its_cluster_is_the_pinned_one";
        a_pin_of_an_earlier_cluster_freezes_what_another_object_has:
            "*known = state.max(*known)" => "*known = state.min(*known)",
            "gateway/federator::tests::severed::one_that_an_object_of_the_new_cluster_names_goes_on_there";
        what_a_lost_record_is_about_leaves_its_member:
            "is_given && self.has_unrecorded" => "false",
            "gateway/federator::tests::shared::what_a_lost_record_is_about_stays_at_its_member_whoever_else_names_it";
        what_only_objects_without_a_member_name_stays:
            "self.has_others || self.has_unplaced || self.has(MemberState::Left)" => "self.has_others || self.has(MemberState::Left)",
            "gateway/federator::tests::shared::no_member_keeps_what_only_an_object_without_one_names";
    }
    "crates/gateway/src/index/single_member/adopted.rs" {
        a_companion_of_another_holds_a_deletion:
            "row.filter(|row| secondary::lists(&row.digest, object))" => "row",
            "gateway/federator::tests::adopted::one_that_another_object_has_now_holds_up_no_deletion";
        object_is_deleted_while_its_companion_is_dispatched:
            "!is_suspended || self.companion_binding(kind, hub, &name).is_some()" => "false",
            "gateway/federator::tests::adopted::its_object_is_deleted_only_once_it_is_parked_and_it_goes_last";
    }
    "crates/gateway/src/triggers.rs" {
        an_orphan_hears_of_no_cluster:
            "keys.extend(pinned.iter().map(|object| index.copy_key(object)))" => "()",
            "gateway/federator::tests::lanes::replaced::an_orphan_hears_of_its_cluster";
    }
    "crates/gateway/src/index/change.rs" {
        a_refusal_is_no_change:
            "new.is_some_and(|row| row.digest.applied) != old.is_some_and(|row| row.digest.applied)" => "new.is_some_and(|row| row.digest.applied)",
            "gateway/federator::tests::adopted::a_member_that_refuses_the_new_spec_within_the_time_keeps_one_that_only_the_old_one_names";
    }
    "crates/gateway/src/index/single_member/pins.rs" {
        a_cluster_that_is_not_known_is_the_pinned_one:
            "PinnedCluster::Unknown" => "PinnedCluster::Same",
            "gateway/federator::tests::severed::a_cluster_that_is_not_known_gets_nothing_and_takes_nothing_back";
    }
    "crates/gateway/src/single_member/orphan/mod.rs" {
        an_orphan_is_gone_at_a_cluster_that_is_another_one:
            "o.cluster == Some(PinnedCluster::Same)" => "true",
            "gateway/single_member::orphan::tests::an_orphan_is_stopped_then_deleted_then_looked_for_and_let_go_last";
        an_ended_orphan_waits_for_its_member:
            "!asks || pin.is_over()" => "!asks",
            "gateway/single_member::orphan::tests::an_orphan_that_its_member_has_ended_waits_for_no_member";
    }
    "crates/gateway/src/companions/decide.rs" {
        a_withdrawal_waits_for_a_permit:
            "is_move(effect) && only_withdraws" => "false",
            "gateway/federator::tests::severed::moves_that_only_withdraw_need_no_permit";
        companion_deleted_without_its_uid:
            "one(s, Write::delete(&row.uid), WriteReason::ReleaseCompanion)" => "one(s, Write::delete(\"\"), WriteReason::ReleaseCompanion)",
            "gateway/companions::decide::tests::nobody_left_deletes_by_uid_and_a_source_that_went_bad_keeps_the_last_good_one";
        new_data_changes_the_lane_without_its_claim:
            "render(s, body, row.digest.delivery_policy.as_deref())" => "render(s, body, s.ready_policy.as_deref())",
            "gateway/companions::decide::tests::new_data_leaves_the_lane_as_it_is_and_the_lane_changes_with_its_claim";
    }
    "crates/engine/src/executor/mod.rs" {
        list_that_an_apply_cannot_empty_stays:
            "empties_a_list(error)" => "false",
            "engine/executor::tests::a_list_that_an_apply_cannot_empty_is_emptied_by_a_merge_patch";
        spec_that_the_schema_does_not_know_loses_it:
            "is_status && has_undeclared_field(error)" => "has_undeclared_field(error)",
            "engine/executor::tests::a_status_with_a_field_that_the_schema_lacks_is_written_without_it";
        update_leaves_another_root:
            "match diff::other_roots(&updated.object, body)" => "match None::<Value>",
            "engine/executor::tests::an_update_is_one_json_patch_and_a_merge_patch_for_another_root";
        copy_loses_fields_that_the_hub_does_not_know:
            "strict.then_some(ValidationDirective::Strict)" => "None",
            "engine/executor::tests::a_strict_write_asks_the_server_to_refuse_fields_that_it_does_not_know";
        read_while_not_leader:
            "self.may_write(call).and_then(|()| self.api(call))" => "self.api(call)",
            "engine/executor::tests::without_the_right_nothing_is_sent_not_even_a_read";
    }
    "crates/engine/src/plane/watch/mod.rs" {
        version_of_a_server_that_was_away_not_asked:
            "self.doubt.max(doubt)" => "if matches!(doubt, Doubt::OnceOpen) { self.doubt } else { self.doubt.max(doubt) }",
            "engine/plane::watch::tests::restored::a_server_behind_a_proxy_that_ends_its_watches_or_answers_for_it_is_read_anew";
    }
    "crates/engine/src/plane/watch/list_watch.rs" {
        restored_plane_not_noticed:
            "self.version < self.status.highest.fetch_max(self.version, Ordering::Relaxed)" => "false",
            "engine/plane::watch::tests::restored::a_server_with_an_older_state_is_read_anew";
        restored_server_watched_in_silence:
            "has < known" => "false",
            "engine/plane::watch::tests::restored::a_server_with_an_older_state_is_read_anew";
        lost_write_not_missed:
            "self.version.max(written)" => "self.version",
            "engine/plane::watch::tests::restored::a_server_that_lost_an_answered_write_is_read_anew";
    }
    "crates/engine/src/runtime/planes/mod.rs" {
        a_failure_of_a_watch_is_not_counted:
            "matches!(event, WatchEvent::Failed)" => "false",
            "engine/runtime::planes::tests::a_watch_that_fails_is_counted_by_its_cause";
    }
    "crates/engine/src/store/table/mod.rs" {
        older_versions_of_a_restored_plane_ignored:
            "origin == Origin::List && held.list != self.list && held.row.version > version" => "false",
            "engine/store::table::tests::a_list_overrules_what_was_known_before_it_began_whatever_the_versions_say";
        lagging_list_hides_an_object_for_good:
            "self.ends.get(uid).is_some_and(|end| end.unlisted)" => "false",
            "engine/store::table::tests::a_watch_that_tells_of_what_its_list_lacked_shows_that_the_list_was_older";
    }
    "crates/engine/src/plane/client/service.rs" {
        a_member_that_is_busy_slows_the_hub:
            "call.member.is_none()" => "true",
            "engine/plane::client::tests::a_member_that_is_busy_slows_no_list_of_the_hub";
        a_member_answers_with_more_than_an_object:
            "self.read(response, members::ANSWER_BYTES)" => "self.read(response, self.limits.answer_bytes)",
            "engine/plane::client::tests::an_answer_of_a_member_that_is_larger_than_an_object_is_not_read";
        members_share_the_permits_of_the_hub:
            "self.members.get(member.to_owned(), new)" => "self.members.get(String::new(), new)",
            "engine/plane::client::tests::a_member_that_answers_nothing_holds_up_neither_the_hub_nor_another_member";
    }
    "crates/engine/src/plane/client/fence.rs" {
        what_is_queued_is_sent_after_the_lease:
            "right.lapses == lapses && !right.has_lapsed()" => "true",
            "engine/plane::client::fence::tests::what_waits_when_the_right_runs_out_is_never_sent";
    }
    "crates/engine/src/plane/lease/write_permit.rs" {
        write_while_not_leader:
            "until.is_some_and(|until| Instant::now() < until)" => "until.is_some()",
            "engine/plane::lease::tests::may_write_ends_by_itself_even_if_the_renewing_task_is_stuck";
        write_after_the_process_was_asked_to_end:
            "!self.closing.load(Ordering::Acquire) && self.until.read(lasts)" => "self.until.read(lasts)",
            "engine/plane::lease::tests::a_process_that_ends_begins_nothing_and_keeps_the_lease_until_it_is_released";
    }
    "crates/engine/src/reconcile/throttle.rs" {
        ready_waits_behind_progress:
            "kind == WriteKind::Progress && rate.burst > 1" => "rate.burst > 1",
            "engine/reconcile::throttle::tests::a_transition_waits_behind_transitions_and_not_behind_progress";
    }
    "crates/gateway/src/federator/decide/status.rs" {
        available_waits_behind_progress:
            "new != source.digest.status.serving()" => "false",
            "gateway/federator::tests::status::progress_waits_for_a_token_and_available_does_not_wait_behind_it";
        status_that_the_project_refuses_is_written_again:
            "refusal.is_none()" => "true",
            "gateway/federator::tests::lanes::status::a_status_that_the_project_refuses_is_said_and_not_written_again_until_it_changes";
    }
    "crates/cell/src/rollout/decide.rs" {
        hold_ignored:
            "hold.and_then(replacement_wait_reason)" => "None::<StepReason>",
            "cell/rollout::tests::scenarios::s30_s31_holds_are_said";
        fixed_forward_whatever_it_is_now:
            "(!instance.ready).then(|| instance.version.clone())" => "None",
            "cell/rollout::tests::scenarios::a_fix_names_the_version_that_was_seen_and_a_roll_the_object_alone";
        step_beside_a_stray:
            "strays.iter().any(|step| step.why != StepReason::Lost)" => "false",
            "cell/rollout::tests::scenarios::s26_to_s28_strays_go_before_anything_is_made";
        last_available_instance_goes:
            "costs && limits.deletable == 0" => "false",
            "cell/rollout::tests::surge::an_available_instance_stays_until_enough_others_are_available";
        roll_does_not_wait_for_the_surge:
            "at_once.saturating_sub(waiting)" => "at_once",
            "cell/rollout::tests::surge::instances_that_never_become_ready_replace_nothing_and_are_deleted_after_a_revert";
        roll_waits_for_quota_for_ever:
            "strategy.max_unavailable.max(u32::from(without_quota))" => "strategy.max_unavailable",
            "cell/rollout::tests::surge::a_surge_without_quota_makes_room_by_one_unavailable_instance";
    }
    "crates/cell/src/provider/decide.rs" {
        limits_that_nobody_enforces_are_run:
            "network_policy::limits(instance)" => "false",
            "cell/provider::tests::policies::limits_that_nobody_would_enforce_are_refused";
        process_ends_before_its_clients_leave:
            "!pod.deleting && !deletes_service" => "!pod.deleting",
            "cell/provider::tests::a_deletion_waits_for_pod_and_service_and_then_lets_go";
        policy_goes_before_its_pod:
            "pod.is_none()" => "true",
            "cell/provider::tests::policies::a_policy_comes_before_the_pod_is_mended_and_goes_after_it";
    }
    "crates/cell/src/index/digest/deployment.rs" {
        changed_template_stays_undone:
            "*undone == hash::of(&spec[\"template\"])" => "!undone.is_empty()",
            "cell/deployment::tests::progress::another_template_is_tried_and_its_completion_ends_the_undo";
    }
    "crates/cell/src/deployment/decide.rs" {
        template_undone_without_a_former_one:
            "recorded.is_some_and(|hash| *hash != spec.hash)" => "recorded != Some(&spec.hash)",
            "cell/deployment::tests::progress::a_first_rollout_that_fails_has_nothing_to_return_to";
    }
    "crates/cell/src/provider/network_policy.rs" {
        peer_without_a_range_is_everybody:
            "block(&peer[\"ipBlock\"])\n                .ok_or_else(|| UnsupportedSpec::PeerWithoutBlock(format!(\"{at}.from[{i}]\")))" => "Ok::<Value, UnsupportedSpec>(block(&peer[\"ipBlock\"]).unwrap_or_default())",
            "cell/provider::network_policy::tests::a_peer_without_a_range_is_refused_and_lets_nobody_in";
    }
    "crates/cell/src/instance/writeback/decide.rs" {
        write_back_into_anothers_namespace:
            "seen.here.as_ref().and_then(both) != Some(there)" => "false",
            "cell/instance::writeback::tests::whose_instance_it_is_has_to_be_clear";
        anothers_write_back_taken:
            "has_left(&deployment.digest, there, here)" => "true",
            "cell/instance::writeback::tests::a_name_that_another_holds_is_left_alone_or_freed_by_whose_it_is";
        deployment_of_another_cell_written_back:
            "deployment.digest.is_elsewhere(&seen.cell)" => "false",
            "cell/instance::writeback::tests::the_named_cell_replaces_what_another_has_written_in_place";
    }
    "crates/cell/src/instance/quota/decide.rs" {
        claim_of_a_former_cell_counts_for_any_size:
            "seen.moved_here == Some(*granted)" => "seen.moved_here.is_some()",
            "cell/instance::quota::decide::tests::a_granted_claim_of_the_former_cell_counts_after_a_move_for_an_instance_of_the_same_size";
    }
    "crates/gateway/src/queries/cells.rs" {
        cell_named_while_karmada_moves_the_copy:
            "binding.eviction.is_none() && is_needed" => "is_needed",
            "gateway/federator::tests::cells::a_cell_is_named_where_another_one_is_named_or_has_written";
        cell_named_by_the_binding_of_an_earlier_copy:
            "binding.digest.owner.as_ref() == Some(&copy.uid)" => "true",
            "gateway/federator::tests::cells::the_binding_of_an_earlier_copy_names_no_cell";
        former_cell_released_before_the_new_one_has_written:
            "written(from) == 0 || to.is_some_and(|to| written(to) >= wanted)" => "true",
            "gateway/federator::tests::cells::a_move_is_read_from_its_binding_and_only_the_gateways_own";
    }
    "crates/gateway/src/workload/replaced.rs" {
        former_city_deleted_before_the_new_one_is_ready:
            "!is_ready(*pair, new)" => "false",
            "gateway/workload::tests::replaced::a_city_serves_until_the_one_that_replaces_it_is_ready";
        former_city_deleted_because_the_new_one_has_no_location:
            "of.is_some_and(|of| !of.has_deployment)" => "false",
            "gateway/workload::tests::replaced::a_city_without_a_location_replaces_nothing";
        a_gap_allowed_by_nobody:
            "Some(\"true\")" => "None",
            "gateway/workload::tests::replaced::a_city_serves_until_the_one_that_replaces_it_is_ready";
    }
    "crates/gateway/src/moves/observe.rs" {
        deployment_that_names_an_unserved_city_not_moved:
            "copy.digest.city.as_ref() != Some(&to.city) && index.is_served(&object.hub, &to.city)" => "copy.digest.city.as_ref() != Some(&to.city)",
            "gateway/moves::tests::a_deployment_that_names_an_unserved_city_moves_within_its_city";
    }
    "crates/gateway/src/moves/decide.rs" {
        lost_cells_acted_on_however_many:
            "counts(&cell) && (are_many || of_city > 1)" => "false",
            "gateway/moves::tests::nothing_moves_while_two_cells_of_its_city_or_a_fifth_of_all_are_not_ready";
        deployment_moved_to_any_cell:
            "**name != of.cell && Cell::takes(&cell.row, &of.route, kind)" => "**name != of.cell",
            "gateway/moves::tests::a_cell_that_lacks_the_kind_is_leaving_or_has_another_taint_takes_nothing";
    }
    "crates/gateway/src/federator/decide/moves.rs" {
        serving_cell_released_because_the_move_is_overdue:
            "is_overdue && moving.serves && !is_taken_over" => "false",
            "gateway/federator::tests::cells::the_former_cell_is_released_after_the_new_one_serves_and_has_written";
    }
    "crates/gateway/src/federator/destination.rs" {
        places_of_a_part_of_the_clusters_count:
            "labels.listed && labels.places.serves(city)" => "true",
            "gateway/federator::tests::places::before_the_clusters_are_listed_a_copy_keeps_its_place";
        copy_taken_from_cells_without_a_location:
            "!labels.places.are_located(city)" => "false",
            "gateway/federator::tests::places::a_copy_changes_its_route_when_no_cell_would_lose_it";
    }
    "crates/gateway/src/index/derived/secondary/places.rs" {
        location_carried_to_the_whole_city:
            "Route::Location(location.clone())" => "Route::City(city.clone())",
            "gateway/federator::tests::places::a_location_of_a_city_with_several_has_its_own_route";
    }
    "crates/gateway/src/index/derived/withheld.rs" {
        projections_go_with_the_first_report:
            "self.count_of(deployment) >= instances" => "true",
            "gateway/index::tests::withheld::a_report_of_what_was_written_back_lets_a_deployments_projections_go";
    }
    "crates/gateway/src/index/derived/project_hub.rs" {
        hub_named_in_another_namespace_counts:
            "live.is_none_or(|uid| uid == of)" => "true",
            "gateway/index::tests::project_hub::a_name_that_was_copied_from_another_namespace_does_not_count";
        former_hub_keeps_its_projects:
            "self.former.contains(uid) || self.replaced.contains(uid)" => "self.former.contains(uid)",
            "gateway/index::tests::project_hub::a_hub_takes_the_place_of_those_that_an_operator_names";
    }
    "crates/gateway/src/federator/pauses.rs" {
        pause_that_fails_in_silence:
            "!is_paused || failure.plane != Plane::Hub || !lasts" => "true",
            "gateway/federator::tests::suspension::a_pause_that_fails_is_told_in_words_of_our_own";
        event_for_a_suspended_project:
            "differs(s) && !s.suspended" => "differs(s)",
            "gateway/federator::tests::suspension::no_event_is_meant_for_a_suspended_project_or_for_what_was_never_paused";
    }
    "crates/gateway/src/index/locations.rs" {
        location_that_is_not_available_is_used:
            "is_open(row) && is_available" => "is_open(row)",
            "gateway/workload::tests::location_sources::where_availability_is_served_a_location_needs_one_of_the_service";
        late_event_of_a_lesser_kind:
            "of.kind != Some(kind)" => "false",
            "gateway/workload::tests::location_sources::a_better_kind_that_is_served_later_takes_over_and_a_lesser_one_never";
    }
    "crates/cell/src/index/mod.rs" {
        serving_locations_of_milo_are_not_seen:
            "self.places.iter().chain(self.milo_places.iter())" => "self.places.iter().chain(self.places.iter())",
            "cell/index::tests::places_of_both_groups_are_one_if_their_names_are";
    }
    "crates/operator/src/membership/mode.rs" {
        agent_of_another_program_is_taken_over:
            "Err(keeps_its_own(cluster))" => "Ok(())",
            "operator/membership::mode::tests::the_mode_of_a_cell_stays";
    }
    "crates/gateway/src/index/derived/teardown.rs" {
        project_that_leaves_late_keeps_its_hub_namespaces:
            "of == uid && teardown.is(of, Known::Deleted)" => "of == uid && false",
            "gateway/tests::teardown::a_project_that_leaves_after_it_was_proven_deleted_is_torn_down_then";
    }
    "crates/engine/src/plane/discovery/milo/mod.rs" {
        finalizers_hold_a_project_that_is_deleted:
            "is_true(object, self.condition())" => "object.metadata.deletion_timestamp.is_none() && is_true(object, self.condition())",
            "engine/plane::discovery::milo::tests::a_project_is_engaged_while_it_is_ready_and_another_life_of_its_name_is_another_project";
        project_that_is_deleted_goes_on_running:
            "is_deleting || (self == Self::Projects && is_true(object, \"Suspended\"))" => "self == Self::Projects && is_true(object, \"Suspended\")",
            "engine/plane::discovery::milo::tests::a_project_is_engaged_while_it_is_ready_and_another_life_of_its_name_is_another_project";
    }
    "crates/gateway/src/single_member/decide/mod.rs" {
        works_are_looked_for_at_once:
            "waited.is_some_and(|waited| waited >= GRACE_PERIOD)" => "true",
            "gateway/federator::tests::lanes::stuck::a_member_that_says_nothing_is_asked_for_its_work_after_a_while";
        works_are_looked_for_though_the_member_has_spoken:
            "item.is_none_or(|item| !item.applied && item.message.is_empty())" => "true",
            "gateway/federator::tests::lanes::stuck::nobody_asks_for_a_work_of_a_member_that_has_spoken_or_cannot";
    }
    "crates/gateway/src/single_member/observe.rs" {
        a_namesakes_binding_holds_a_deletion:
            "other_kind(index, *kind, row).is_none().then_some(row)" => "Some(row)",
            "gateway/federator::tests::lanes::namesakes::an_object_that_waits_for_its_namesake_can_be_deleted";
        a_deletion_ends_by_the_word_of_a_cluster_that_may_be_another_one:
            "clusters.proves()" => "true",
            "gateway/federator::tests::lanes::replaced::a_deletion_ends_only_while_the_clusters_are_seen";
        a_namesake_that_ends_is_not_waited_for:
            "pinned.is_none() && !is_unreadable" => "false",
            "gateway/federator::tests::lanes::namesakes::an_object_waits_for_the_end_of_its_namesake_of_another_group";
        a_namesake_whose_record_is_unreadable_is_not_waited_for:
            "pin.is_some_and(|pin| !pin.is_over()) || index.has_unreadable_pin(*other, hub, name)" => "pin.is_some_and(|pin| !pin.is_over())",
            "gateway/federator::tests::lanes::namesakes::an_object_waits_for_the_end_of_its_namesake_of_another_group";
        a_companion_counts_as_applied_before_its_lane_is_seen:
            "delivery.filter(|delivery| delivery.observed)?.at(member)" => "delivery?.at(member)",
            "gateway/federator::tests::lanes::a_copy_waits_for_the_companions_that_it_needs";
    }
    "crates/gateway/src/single_member/conditions.rs" {
        a_status_is_current_while_an_edit_is_refused:
            "refusal(c, copy, pin, may_report).is_some()" => "false",
            "gateway/federator::tests::lanes::status::a_status_is_not_current_while_the_member_refuses_an_edit";
    }
    "crates/gateway/src/single_member/decide/mod.rs" {
        a_full_record_gets_another_pin:
            "self.at.record.is_full" => "false",
            "gateway/federator::tests::lanes::a_namespace_with_too_many_members_gets_no_more_until_one_is_gone";
        a_record_only_grows:
            "is_named(token) || !self.at.adopted.gone.contains(token)" => "true",
            "gateway/federator::tests::adopted::those_that_are_gone_from_the_hub_leave_the_record_when_another_one_joins_it";
        a_round_of_taking_over_begins_before_its_write:
            "(stage, wanted) == (Some(Stage::Preserve), Stage::TakeOver)" => "false",
            "gateway/federator::tests::lanes::what_karmada_has_let_go_of_is_taken_over_again_and_not_too_often";
        a_companion_of_what_strays_is_forgotten:
            "stage == Some(Stage::Deliver)" => "false",
            "gateway/federator::tests::adopted::one_of_an_object_that_is_sent_and_strays_is_recorded_first";
        a_spec_that_was_edited_before_the_first_delivery_comes_second:
            "matches!(stage, Some(Stage::Suspend | Stage::Withdraw))" => "stage == Some(Stage::Suspend)",
            "gateway/federator::tests::lanes::resumed::a_spec_that_was_edited_before_the_first_delivery_goes_with_its_lane";
        a_spec_leaves_hold_before_its_companions:
            "!self.is_furnished_for(stage)" => "!self.has_sources()",
            "gateway/federator::tests::lanes::resumed::a_spec_that_names_another_companion_waits_in_hold_until_that_is_applied";
    }
    "crates/gateway/src/single_member/decide/deletion.rs" {
        a_deletion_builds_its_object_at_another_cluster:
            "is_made_again && may_take_over && c.is_at(PinnedCluster::Same)" => "is_made_again && may_take_over",
            "gateway/federator::tests::lanes::replaced::nothing_is_taken_over_at_a_cluster_that_is_another_one_or_gone";
        an_ended_object_is_dispatched_again:
            "pin.ended.is_none() || memory.deletion.is_alive" => "true",
            "gateway/federator::tests::lanes::remade::an_ended_object_whose_copy_was_created_twice_is_not_dispatched_again";
        a_companion_of_what_was_just_sent_is_forgotten:
            "stage.is_some_and(|stage| stage != Stage::Withdraw)" => "false",
            "gateway/federator::tests::adopted::one_of_an_object_that_was_just_sent_is_recorded_before_its_object_is_stopped";
    }
    "crates/gateway/src/single_member/decide/guards.rs" {
        a_guard_is_deleted_at_its_member:
            "generation == copy.digest.source_generation" => "true",
            "gateway/federator::tests::lanes::guards::the_end_of_a_guard_reaches_the_member_before_the_copy_is_withdrawn";
    }
    "crates/gateway/src/federator/decide/single_member.rs" {
        a_refused_spec_goes_with_its_policy:
            "has_changed && !retains_last_spec" => "has_changed",
            "gateway/federator::tests::lanes::refused::it_is_held_and_resumed_without_its_spec";
        a_deletion_at_another_cluster_waits_for_a_permit:
            "permit_to_move(p)" => "p.permit",
            "gateway/federator::tests::lanes::replaced::a_deletion_at_another_cluster_waits_for_no_permit";
    }
    "crates/gateway/src/single_member/mod.rs" {
        an_object_asks_for_its_policy_at_each_pass:
            "index.intents.requested.request(hub, key, policy)" => "index.intents.requested.request(hub, key, policy) || true",
            "gateway/federator::tests::lanes::wanted::an_object_asks_for_its_policy_once";
    }
    "crates/gateway/src/federator/memory.rs" {
        a_spec_that_the_hub_refuses_stops_the_way_of_its_copy:
            "is_spec && self.refusal(source, now).is_some()" => "false",
            "gateway/federator::tests::lanes::refused::a_spec_that_the_hub_refuses_holds_up_nothing_else";
        conditions_that_a_server_dropped_are_never_tried_again:
            "now.since(at) < RETRY_AFTER" => "true",
            "gateway/federator::tests::noted::a_server_that_keeps_them_again_has_them_in_the_status";
    }
    "crates/gateway/src/federator/stored.rs" {
        conditions_count_as_stored_because_they_are_noted:
            "stored.conditions == ConditionsAt::Annotation" => "false",
            "gateway/federator::stored::tests::conditions_are_lost_only_if_they_were_sent_and_none_was_stored";
    }
}
