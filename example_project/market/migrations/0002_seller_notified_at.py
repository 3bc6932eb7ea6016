from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("market", "0001_initial")]

    operations = [
        migrations.RenameField("item", "seller_told_at", "seller_notified_at"),
        migrations.AlterField(
            "item",
            "seller_notified_at",
            models.DateTimeField(blank=True, editable=False, null=True, verbose_name="seller notified"),
        ),
    ]
