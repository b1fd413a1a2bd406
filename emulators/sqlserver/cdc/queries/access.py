"""Who may call what: db_owner for the procedures that change anything, the gating role and SELECT on the source for change data.

Sources: the "Permissions" sections of the pages of sys.sp_cdc_... and cdc.fn_cdc_... . Enabling a database takes sysadmin on the
real server; here, as on Azure SQL Database, db_owner is enough.
"""

from __future__ import annotations

from emulators.sqlserver.cdc import errors
from emulators.sqlserver.cdc.instance import CaptureInstance
from emulators.sqlserver.engine.extension import CallContext

_OWNER = "db_owner"


def require_for_database(context: CallContext) -> None:
    """Raises 22902."""
    if not context.is_member(_OWNER):
        raise errors.not_authorized("sysadmin")


def require_owner(context: CallContext) -> None:
    """Raises 22904."""
    if not context.is_member(_OWNER):
        raise errors.owner_required()


def in_gating_role(context: CallContext, instance: CaptureInstance) -> bool:
    """Without a gating role nobody is kept out."""
    return instance.role_name is None or context.is_member(instance.role_name)


def may_select(context: CallContext, instance: CaptureInstance) -> bool:
    """Whether the caller may SELECT from the source table (of the real server's "all captured columns" this asks a little more)."""
    source = context.database.table_by_id(instance.source_object_id)
    return source is not None and context.may_select(source.schema, source.name)


def may_read(context: CallContext, instance: CaptureInstance) -> bool:
    """Whether the caller may see an instance's change data and what describes it."""
    return in_gating_role(context, instance) and may_select(context, instance)
