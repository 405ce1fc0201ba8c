package cedrat.maven;

import java.io.File;
import java.io.IOException;
import org.apache.maven.plugin.AbstractMojo;
import org.apache.maven.plugin.MojoExecutionException;
import org.apache.maven.plugin.MojoFailureException;
import org.apache.maven.plugins.annotations.LifecyclePhase;
import org.apache.maven.plugins.annotations.Mojo;
import org.apache.maven.plugins.annotations.Parameter;

/// Puts the agent into an executable jar, which then starts it: `java -jar` needs no option. The jar may be one of
/// Spring Boot.
@Mojo(name = "agent", defaultPhase = LifecyclePhase.PACKAGE, threadSafe = true)
public final class AgentMojo extends AbstractMojo {
    /// The arguments of the agent, such as `include=com.acme.model`.
    @Parameter(property = "cedrat.arguments")
    private String arguments;

    /// The executable jar.
    @Parameter(defaultValue = "${project.build.directory}/${project.build.finalName}.jar")
    private File jar;

    /// Called by Maven.
    public AgentMojo() {}

    @Override
    public void execute() throws MojoExecutionException, MojoFailureException {
        try {
            new ExecutableJar(jar.toPath()).addAgent(arguments);
        } catch (IOException e) {
            throw new MojoExecutionException("cannot add the agent to " + jar + ": " + e, e);
        } catch (IllegalArgumentException e) {
            throw new MojoFailureException("cannot add the agent to " + jar + ": " + e.getMessage(), e);
        }
    }
}
