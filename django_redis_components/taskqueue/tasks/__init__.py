"""What a site declares and sends: `@task` with its options, and the results it gets back."""
