"""The table of the outbox."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    """Create the table."""

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="OutboxEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("using", models.CharField(max_length=200)),
                ("token", models.CharField(max_length=40)),
                ("format", models.PositiveSmallIntegerField()),
                ("message", models.BinaryField()),
                ("size", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name": "outbox entry",
                "verbose_name_plural": "outbox entries",
                "db_table": "django_redis_components_outbox",
                "default_permissions": (),
            },
        ),
    ]
