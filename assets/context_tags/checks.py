"""The asset checks of context_tags: how each answer is made from what was found."""

import dagster as dg

OLD_TEXTS = dg.AssetCheckSpec(
    "texts_are_forgotten",
    asset="context_keywords",
    description="Texts that are kept longer than a day, or after both their stages came to an end.",
)
FAILED = dg.AssetCheckSpec(
    "contexts_did_not_fail",
    asset="context_keywords",
    description="Contexts that this run ended as FAILED, by reason.",
)


def old_texts(overdue: int) -> dg.AssetCheckResult:
    """Fails where a text is kept that should be forgotten."""
    return dg.AssetCheckResult(check_name=OLD_TEXTS.name, passed=overdue == 0, metadata={"texts": overdue})


def failed(reasons: dict[str, int]) -> dg.AssetCheckResult:
    """Warns where contexts failed; the reasons are codes of ours and of the provider."""
    return dg.AssetCheckResult(
        check_name=FAILED.name,
        passed=not reasons,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"contexts": sum(reasons.values()), "reasons": dg.MetadataValue.json(reasons)},
    )
