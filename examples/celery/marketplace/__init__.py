"""A marketplace that scheduled with Celery's `eta`, on its way to Duebook."""
