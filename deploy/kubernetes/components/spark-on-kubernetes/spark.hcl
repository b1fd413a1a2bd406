    # Into the block `ingester` of dstream.hcl, with your image and sizes. One executor takes 2 tasks at a time here, so this is 4 slots.
    # Address, ports, owner and namespace come from variables of the pod, and memory for the tasks' workers is added: docs/install.md.
    spark {
        master = "k8s://https://kubernetes.default.svc"
        conf = {
            "spark.kubernetes.container.image"                    = "registry.example.com/dstream/ingester:0.1.0"
            "spark.executor.instances"                            = "2"
            "spark.executor.cores"                                = "2"
            "spark.kubernetes.executor.request.cores"             = "500m"

            # Whose identity in Azure the executors have, as the ingester; they get no token for the API server.
            "spark.kubernetes.authenticate.executor.serviceAccountName" = "dstream-ingester"

            "spark.kubernetes.executor.podTemplateFile"           = "/etc/dstream-spark/executor.yaml"
            "spark.kubernetes.executor.podTemplateContainerName"  = "executor"
            "spark.kubernetes.executor.disableConfigMap"          = "true"  # it would hold nothing
            "spark.kubernetes.driver.service.deleteOnTermination" = "false" # it has neither a Service
            "spark.kubernetes.driver.ownPersistentVolumeClaim"    = "false" # nor a claim
        }
    }
